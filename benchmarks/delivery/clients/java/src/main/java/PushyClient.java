import com.eatthepath.pushy.apns.ApnsClient;
import com.eatthepath.pushy.apns.ApnsClientBuilder;
import com.eatthepath.pushy.apns.auth.ApnsSigningKey;
import com.eatthepath.pushy.apns.util.SimpleApnsPushNotification;
import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;

/** Send notifications with Pushy. Prints figures; see run.py. Arguments: port, CA file, key file, requests, in flight. */
public final class PushyClient {
  private static void send(final ApnsClient client, final int count, final int inFlight) throws Exception {
    final String payload = "{\"aps\":{\"alert\":\"" + "World ".repeat(63) + "\"}}";
    final Semaphore room = new Semaphore(inFlight);
    final AtomicReference<Object> failure = new AtomicReference<>();
    for (int number = 0; number < count && failure.get() == null; number++) {
      room.acquire();
      final var notification =
          new SimpleApnsPushNotification(String.format("%064x", number), "com.example.app", payload);
      client.sendNotification(notification).whenComplete((response, cause) -> {
        if (cause != null || !response.isAccepted()) {
          failure.set(cause != null ? cause : response);
        }
        room.release();
      });
    }
    room.acquire(inFlight);
    if (failure.get() != null) {
      throw new IllegalStateException(failure.get().toString());
    }
  }

  public static void main(final String[] given) throws Exception {
    final int port = Integer.parseInt(given[0]);
    final int requests = Integer.parseInt(given[3]);
    final int inFlight = Integer.parseInt(given[4]);
    final ApnsClient client = new ApnsClientBuilder()
        .setApnsServer("127.0.0.1", port)
        .setTrustedServerCertificateChain(new File(given[1]))
        .setSigningKey(ApnsSigningKey.loadFromPkcs8File(new File(given[2]), "TEAM123456", "ABCDE12345"))
        .build();
    final var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    send(client, requests, inFlight); // until it is compiled
    final long began = System.nanoTime();
    final long used = system.getProcessCpuTime();
    send(client, requests, inFlight);
    final double took = (System.nanoTime() - began) / 1e9;
    final double cpu = (system.getProcessCpuTime() - used) / 1e3 / requests;
    System.out.printf("{\"requests_s\": %f, \"cpu_us\": %f}%n", requests / took, cpu);
    client.close().get();
  }
}
