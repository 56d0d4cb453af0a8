"""The figures of the API say what was asked, how it was answered and how long it took."""

from prometheus_client import CollectorRegistry, generate_latest

from tests.unit.web.stub_server import served


async def test_requests_are_counted_by_action_and_status_and_timed() -> None:
    async with served() as server:
        for line in ("GET /v1/tasks", "GET /v1/tasks", "GET /v1/tasks/1", "GET /nothing", "FOO /"):
            await server.ask(line)
        registry = CollectorRegistry()
        registry.register(server.figures)
        text = generate_latest(registry).decode()
    for line in (
        'fairlane_api_requests_total{action="tasks.list",status="200"} 2.0',
        'fairlane_api_requests_total{action="tasks.show",status="404"} 1.0',
        'fairlane_api_requests_total{action="none",status="404"} 1.0',
        'fairlane_api_requests_total{action="none",status="400"} 1.0',
        'fairlane_api_request_seconds_count{action="tasks.list"} 2.0',
        "fairlane_api_in_flight 0.0",
        "fairlane_api_free_uploads 8.0",
    ):
        assert line in text
