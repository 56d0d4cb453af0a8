// Send notifications with sideshow/apns2. Prints figures; see run.py.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/token"
	"golang.org/x/net/http2"
)

type work struct {
	Port     int    `json:"port"`
	CaFile   string `json:"ca_file"`
	KeyFile  string `json:"key_file"`
	Requests int64  `json:"requests"`
	InFlight int    `json:"in_flight"`
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func cpu() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func send(client *apns2.Client, count int64, inFlight int) {
	payload := map[string]any{"aps": map[string]any{"alert": strings.Repeat("World ", 63)}}
	var next int64
	var group sync.WaitGroup
	for i := 0; i < inFlight; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for number := atomic.AddInt64(&next, 1); number <= count; number = atomic.AddInt64(&next, 1) {
				response, err := client.Push(&apns2.Notification{
					DeviceToken: fmt.Sprintf("%064x", number), Topic: "com.example.app", Payload: payload,
				})
				check(err)
				if response.StatusCode != http.StatusOK {
					panic(response.Reason)
				}
			}
		}()
	}
	group.Wait()
}

func main() {
	var given work
	check(json.Unmarshal([]byte(os.Args[1]), &given))
	authority, err := os.ReadFile(given.CaFile)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	key, err := token.AuthKeyFromFile(given.KeyFile)
	check(err)
	client := apns2.NewTokenClient(&token.Token{AuthKey: key, KeyID: "ABCDE12345", TeamID: "TEAM123456"})
	client.Host = fmt.Sprintf("https://127.0.0.1:%d", given.Port)
	client.HTTPClient.Transport = &http2.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, DialTLS: apns2.DialTLS,
	}
	send(client, given.Requests/10, given.InFlight)
	began, used := time.Now(), cpu()
	send(client, given.Requests, given.InFlight)
	took := time.Since(began).Seconds()
	used = cpu() - used
	fmt.Printf("{\"requests_s\": %f, \"cpu_us\": %f}\n", float64(given.Requests)/took, used/float64(given.Requests)*1e6)
}
