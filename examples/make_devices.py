"""Made `devices.csv`: 60,000 made-up device tokens of three apps. Run again, it writes the same file."""

import csv
import random
from pathlib import Path

APPS = {"shop": 20_000, "news": 30_000, "chat": 10_000}
LOCALES = ("de", "en", "fr", "ja")


def main() -> None:
    chance = random.Random(2026)
    with Path(__file__).with_name("devices.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["app", "segment", "token", "locale"])
        for app, count in APPS.items():
            for number in range(count):
                token = f"{chance.getrandbits(160):040x}"
                writer.writerow([app, "abcdefghij"[number % 10], token, chance.choice(LOCALES)])


if __name__ == "__main__":
    main()
