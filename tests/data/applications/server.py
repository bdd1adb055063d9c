"""A small server: answers with the text of version.txt, is ready unless that is 'sick', and ends when it is told to."""

import http.server
import os
import sys
import time
from pathlib import Path

VERSION = Path("version.txt").read_text().strip()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        if self.path == "/die":
            os._exit(7)
        if self.path == "/slow":
            time.sleep(3)
        body = VERSION.encode()
        self.send_response(500 if VERSION == "sick" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


print("this is version", VERSION, "on port", os.environ["PORT"], flush=True)
if VERSION == "broken":
    sys.exit("it cannot start")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
