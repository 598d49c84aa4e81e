"""HTTP/1.1 and server-sent events over a socket, read strictly: anything that a standard does not allow is an error."""
import json
import socket

PATIENCE = 600  # seconds; ends a hang, and nothing else


class Closed(Exception):
    """The server has closed the connection."""


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        assert self.headers["content-type"].split(";")[0] == "application/json", self.headers
        return json.loads(self.body.decode("utf-8"))

    @property
    def error(self):
        """The fields of an error, as clients read them."""
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert isinstance(error["message"], str) and error["message"] and "\n" not in error["message"], error
        assert isinstance(error["type"], str) and error["type"], error
        return error


def request_bytes(method, path, body=None, headers=()):
    """headers: a dict; a value of None leaves a usual header out."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    fields = {"Host": "127.0.0.1"}
    if body is not None:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    fields |= dict(headers)
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1") + (body or b"")


class Connection:
    """source: the address to come from, in 127.0.0.0/8. receive_buffer: how many bytes wait here at most."""
    def __init__(self, port, source=None, receive_buffer=None):
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.buffer = b""
        try:
            if source:
                self.socket.bind((source, 0))
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError as error:
            raise Closed from error
        if not data:
            raise Closed
        self.buffer += data

    def until(self, end):
        while end not in self.buffer:
            self.receive()
        found, _, self.buffer = self.buffer.partition(end)
        return found

    def exactly(self, size):
        while len(self.buffer) < size:
            self.receive()
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    def head(self):
        """Status and headers, whose names are in lower case."""
        first, *lines = self.until(b"\r\n\r\n").decode("ascii").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1" and len(status) == 3, first
        headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            assert colon and name and name == name.strip() and name.lower() not in headers, line
            headers[name.lower()] = value.strip()
        return int(status), headers

    def chunks(self):
        while True:
            data = self.exactly(int(self.until(b"\r\n"), 16))
            assert self.exactly(2) == b"\r\n"
            if not data:
                return
            yield data

    def answer(self):
        status, headers = self.head()
        if headers.get("transfer-encoding") == "chunked":
            body = b"".join(self.chunks())
        else:
            body = self.exactly(int(headers.get("content-length", 0)))
        return Answer(status, headers, body)

    def ask(self, *args, **kwargs):
        self.send(request_bytes(*args, **kwargs))
        return self.answer()

    def is_closed(self):
        """Waits for the server to close the connection."""
        try:
            while True:
                self.receive()
        except Closed:
            return True

    def events(self):
        """The data of the events of a stream whose head has been read, without comments."""
        text = b""
        for chunk in self.chunks():
            text += chunk
            while b"\n\n" in text:
                event, _, text = text.partition(b"\n\n")
                lines = [line for line in event.decode("utf-8").split("\n") if not line.startswith(":")]
                if lines:
                    assert len(lines) == 1 and lines[0].startswith("data: "), event
                    yield lines[0][len("data: "):]
        assert text == b"", "an event without its blank line"
