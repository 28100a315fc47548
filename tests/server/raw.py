"""Clients that misbehave, as far as a socket lets them."""

import json
import socket
import struct


def post_text(path, body, *extra_lines):
    """A request, as bytes."""
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: test", "Content-Type: application/json",
             f"Content-Length: {len(data)}", *extra_lines, "", ""]
    return "\r\n".join(lines).encode() + data


def read_until(connection, mark):
    """What comes, up to and with `mark` or the end."""
    data = b""
    while mark not in data:
        piece = connection.recv(4096)
        if not piece:
            break
        data += piece
    return data


def read_to_end(connection):
    return read_until(connection, b"\0 no such mark \0")


def read_to_end_or_reset(connection):
    data = b""
    try:
        while piece := connection.recv(4096):
            data += piece
    except ConnectionResetError:
        pass
    return data


def half_close(connection):
    """Says that nothing more is sent; goes on reading."""
    connection.shutdown(socket.SHUT_WR)


def reset(connection):
    """Leaves without a word: the other side gets a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
