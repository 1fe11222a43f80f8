"""The examples of a model and of calls: they do what they say, beside a service that is there."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from examples import airport_weather, flight_delays
from pystreams.serdes import JSON, STRING
from pystreams.testing import TopologyTestDriver


def test_model_predicts_for_flights_that_have_left() -> None:
    flights = [
        {"carrier": "UA", "dest": "LAX", "distance": 2475, "dep_delay": 60},
        {"carrier": "AA", "dest": "MIA", "distance": 1089, "dep_delay": None},
        {"carrier": "DL", "dest": "BOS", "distance": 187, "dep_delay": 60},
    ]
    with TopologyTestDriver(flight_delays.builder.build(), flight_delays.config) as driver:
        topic = driver.create_input_topic("flights", STRING, JSON)
        for number, flight in enumerate(flights):
            topic.pipe_input(f"N{number}", flight)
        told = driver.create_output_topic("predicted-delays", STRING, JSON).read_key_values()

    assert [(key, value["dest"]) for key, value in told] == [("N0", "LAX"), ("N2", "BOS")]
    far, near = (value["predicted_arr_delay"] for _, value in told)
    assert 30 < far < near < 60, "the further it flies, the more it makes up"


def test_model_gives_a_batch_what_it_gives_each_flight_alone() -> None:
    flights: list[flight_delays.Flight] = [
        {"carrier": "UA", "dest": "LAX", "distance": 100 * number, "dep_delay": number}
        for number in range(50)
    ]

    alone = [prediction for flight in flights for prediction in flight_delays.predict([flight])]

    assert flight_delays.predict(flights) == alone


class Weather(BaseHTTPRequestHandler):
    """Answers each question; the first for an airport with an error."""

    asked: list[str]

    def do_GET(self) -> None:
        airport = self.path.removeprefix("/weather/")
        first = airport not in self.asked
        self.asked.append(airport)
        body = json.dumps({"sky": f"clear over {airport}"}).encode()
        self.send_response(503 if first else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def weather_url() -> Iterator[str]:
    Weather.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Weather)
    thread = threading.Thread(target=server.serve_forever, name="weather")
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_service_is_asked_for_each_flight_and_again_when_it_fails(
    weather_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_URL", weather_url)
    with TopologyTestDriver(airport_weather.builder.build(), airport_weather.config) as driver:
        topic = driver.create_input_topic("flights", STRING, JSON)
        topic.pipe_input("N1", {"dest": "LAX"})
        topic.pipe_input("N2", {"dest": "BOS"})
        told = driver.create_output_topic("flights-with-weather", STRING, JSON).read_key_values()

    assert told == [
        ("N1", {"dest": "LAX", "weather": {"sky": "clear over LAX"}}),
        ("N2", {"dest": "BOS", "weather": {"sky": "clear over BOS"}}),
    ]
    assert Weather.asked == ["LAX", "LAX", "BOS", "BOS"]
