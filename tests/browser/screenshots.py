"""Take the pictures of docs/console.md: python -m tests.browser.screenshots"""

from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.browser.conftest import opened, program
from tests.browser.scene import IN_REDIS, scene
from tests.browser.test_pages import shows_old_figures
from tests.integration.worker_crew import eventually
from web.console.pages import PAGES

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "console"
TASKS = 40
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 860}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 860}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}


def main() -> None:
    """Take each page in each look."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with scene(TASKS) as service, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program())
        for look, given in LOOKS.items():
            with opened(browser, service, **given) as tab:
                for page in PAGES[:-1]:  # all but the runbooks
                    tab.go(page.path.replace("{id}", IN_REDIS[0]))
                    tab.page.screenshot(path=FOLDER / f"{page.name}-{look}.png")
        service.lose_pulsar()
        for look, given in LOOKS.items():
            with opened(browser, service, **given) as tab:
                eventually(lambda tab=tab: shows_old_figures(tab, "/"), 30, "Pulsar is silent")  # type: ignore[misc]
                tab.page.screenshot(path=FOLDER / f"silence-{look}.png")
        browser.close()


if __name__ == "__main__":
    main()
