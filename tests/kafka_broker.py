"""A real Kafka broker for tests and benchmarks, and the fixture that hands it out.

Where it comes from, the first that is there:

1. `DURATON_TEST_KAFKA`, the bootstrap address of a broker that runs already;
2. testcontainers, where a Docker engine answers;
3. Apache Kafka from Maven, where a JDK (17 or later) and `mvn` are found: one process,
   broker and controller in one, its files under the user's cache directory.

Where none is there the Kafka tests are skipped and say why; with
`DURATON_REQUIRE_KAFKA=1` they fail instead.

As a program it runs the broker of 3 in the foreground; killing it kills the broker:

    python tests/kafka_broker.py --port 9092 --data /tmp/kafka
"""

import argparse
import ctypes
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

KAFKA_VERSION = "4.4.0"
CLUSTER_ID = "ZHVyYXRvbi10ZXN0cy0wMQ"  # a broker's own id: 16 bytes in base64

DOWNLOAD_S = 300  # Maven fetches 43 MB
START_S = 90  # two seconds alone, more beside a full test run
ANSWER_S = 1.0  # one question to a broker that is starting

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>duraton.tests</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId><version>2.25.3</version></dependency>
  </dependencies>
</project>
"""

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=200
controller.quorum.election.timeout.ms=200
controller.quorum.fetch.timeout.ms=500
log.cleaner.dedupe.buffer.size=8388608
"""

LOG4J = """
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n
"""


class NoBrokerError(Exception):
    """No broker can be had here; the text says what was looked for."""


def jars() -> Path:
    """The directory of Kafka's jars, fetched by Maven at the first use."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "duraton-test-kafka"
    ready = home / KAFKA_VERSION
    if ready.is_dir():
        return ready
    if shutil.which("mvn") is None:
        raise NoBrokerError("no DURATON_TEST_KAFKA, no Docker engine, and no `mvn` on the path")
    home.mkdir(parents=True, exist_ok=True)
    # Fetched aside and renamed, so that two test runs at once do not meet half a directory.
    work = Path(tempfile.mkdtemp(dir=home))
    try:
        (work / "pom.xml").write_text(POM)
        fetched = subprocess.run(
            [
                "mvn",
                "--quiet",
                "--batch-mode",
                "--file",
                str(work / "pom.xml"),
                "dependency:copy-dependencies",
                f"-DoutputDirectory={work / 'lib'}",
                "-DincludeScope=runtime",
            ],
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_S,
            check=False,
        )
        if fetched.returncode != 0:
            raise NoBrokerError(f"Maven cannot fetch Kafka: {fetched.stdout[-800:]}")
        try:
            (work / "lib").rename(ready)
        except OSError:
            if not ready.is_dir():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return ready


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def become_broker(port: int, data: Path, *, with_parent: bool = False) -> None:
    """Format the data directory if it is new, and turn this process into the broker."""
    if shutil.which("java") is None:
        raise NoBrokerError("no `java` on the path")
    classes = f"{jars()}/*"
    data.mkdir(parents=True, exist_ok=True)
    properties, log4j = data / "server.properties", data / "log4j2.properties"
    properties.write_text(
        PROPERTIES.format(port=port, controller=free_port(), data=data / "topics")
    )
    log4j.write_text(LOG4J)
    java = ["java", "-cp", classes, f"-Dlog4j2.configurationFile={log4j}"]
    if not (data / "topics" / "meta.properties").exists():
        subprocess.run(
            [
                *java,
                "-XX:TieredStopAtLevel=1",
                "kafka.tools.StorageTool",
                "format",
                "--ignore-formatted",
                "-t",
                CLUSTER_ID,
                "-c",
                str(properties),
            ],
            stdout=subprocess.DEVNULL,
            check=True,
        )
    if with_parent and sys.platform == "linux":
        die_with_parent = 1  # PR_SET_PDEATHSIG: a test run that is killed leaves no broker behind
        ctypes.CDLL(None).prctl(die_with_parent, signal.SIGKILL)
    os.execvp("java", [*java, "-Xmx512m", "kafka.Kafka", str(properties)])


class Broker:
    """A broker from Maven that tests may kill, freeze, and start again on its data.

    Args:
        data: Its directory; what it printed is in `broker.log` there.
    """

    def __init__(self, data: Path) -> None:
        if shutil.which("java") is None:
            raise NoBrokerError("no DURATON_TEST_KAFKA, no Docker engine, and no `java`")
        jars()
        self.data = data
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Its address, the same after each start."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and return once it answers."""
        self.data.mkdir(parents=True, exist_ok=True)
        with (self.data / "broker.log").open("ab") as out:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    __file__,
                    "--port",
                    str(self.port),
                    "--data",
                    str(self.data),
                    "--with-parent",
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        try:
            wait_until_it_answers(self.bootstrap, self._process)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop it without ending it (SIGSTOP): connections stay and nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on (SIGCONT)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def wait_until_it_answers(bootstrap: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Return once a broker tells its topics; `NoBrokerError` if it ends or never does."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    quiet = logging.getLogger("tests.kafka_broker")
    quiet.propagate = False
    quiet.addHandler(logging.NullHandler())
    client = AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        },
        logger=quiet,
    )
    deadline = time.monotonic() + START_S
    while True:
        try:
            if client.list_topics(timeout=ANSWER_S).brokers:
                return
        except KafkaException as error:
            reason = str(error)
        else:
            reason = "it knows no broker"
        if process is not None and process.poll() is not None:
            raise NoBrokerError(f"the broker ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise NoBrokerError(f"{bootstrap} does not answer: {reason}")


def docker_answers() -> bool:
    """Whether a Docker engine listens where testcontainers would look."""
    where = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    family = socket.AF_UNIX if where.scheme == "unix" else socket.AF_INET
    address = where.path if where.scheme == "unix" else (where.hostname, where.port or 2375)
    with socket.socket(family) as probe:
        probe.settimeout(ANSWER_S)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


@contextmanager
def running_kafka() -> Iterator[str]:
    """The address of a broker, from wherever one can be had; `NoBrokerError` otherwise."""
    if address := os.environ.get("DURATON_TEST_KAFKA"):
        wait_until_it_answers(address)
        yield address
    elif docker_answers():
        from testcontainers.kafka import KafkaContainer

        with KafkaContainer("confluentinc/cp-kafka:7.9.2").with_kraft() as container:
            yield container.get_bootstrap_server()
    else:
        with running_broker() as broker:
            yield broker.bootstrap


@contextmanager
def running_broker() -> Iterator[Broker]:
    """A broker from Maven on data of its own, started."""
    with tempfile.TemporaryDirectory(prefix="duraton-kafka-", ignore_cleanup_errors=True) as data:
        broker = Broker(Path(data))
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()


def _skip_or_fail(error: NoBrokerError) -> None:
    if os.environ.get("DURATON_REQUIRE_KAFKA") == "1":
        pytest.fail(f"a Kafka broker is required here: {error}")
    pytest.skip(f"no Kafka broker: {error}")


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """The address of a broker that all Kafka tests share; names in it are their own."""
    try:
        with running_kafka() as bootstrap:
            yield bootstrap
    except NoBrokerError as error:
        _skip_or_fail(error)


@pytest.fixture
def kafka_broker() -> Iterator[Broker]:
    """A broker of the test's own, to be killed and started again."""
    try:
        with running_broker() as broker:
            yield broker
    except NoBrokerError as error:
        _skip_or_fail(error)


def main() -> None:
    """Run a broker in the foreground."""
    parser = argparse.ArgumentParser(description="Run a Kafka broker for tests.")
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--data", type=Path, required=True, help="its directory, made if missing")
    parser.add_argument("--with-parent", action="store_true", help="end when the parent ends")
    given = parser.parse_args()
    try:
        become_broker(given.port, given.data.absolute(), with_parent=given.with_parent)
    except NoBrokerError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
