"""An authority of the test's own, and certificates that it signs, by openssl."""
import subprocess

NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"


def openssl(*args):
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Authority:
    """A root that clients trust, and one below it that signs: a server has to send its chain to be believed."""

    def __init__(self, folder):
        self.folder, self.root = folder, folder / "root.pem"
        self.serial = 100
        openssl("req", "-x509", *new_key("ec", folder / "root.key"), "-out", self.root, "-days", 30, "-subj", "/CN=test root",
                "-addext", "keyUsage=critical,keyCertSign")
        self.middle = self.sign("middle", "ec", self.root, folder / "root.key", "basicConstraints=critical,CA:TRUE")

    def sign(self, name, kind, issuer, issuer_key, extension):
        request, cert, extensions = (self.folder / f"{name}.{end}" for end in ("csr", "crt", "ext"))
        self.serial += 1
        openssl("req", "-new", *new_key(kind, self.folder / f"{name}.key"), "-out", request, "-subj", f"/CN=test {name}")
        extensions.write_text(extension)
        openssl("x509", "-req", "-in", request, "-out", cert, "-CA", issuer, "-CAkey", issuer_key, "-days", 20,
                "-set_serial", self.serial, "-extfile", extensions)
        return cert

    def pair(self, name, kind="ec"):
        """Chain and key of a server at 127.0.0.1, as texts; each has a serial number of its own."""
        own = self.sign(name, kind, self.middle, self.folder / "middle.key", NAMES)
        return own.read_text() + self.middle.read_text(), (self.folder / f"{name}.key").read_text()


def new_key(kind, path):
    how = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" else ["rsa:2048"]
    return ["-newkey", *how, "-nodes", "-keyout", path]


class Pair:
    """The files that a server reads; written anew in place of the old ones."""

    def __init__(self, folder, authority):
        self.cert, self.key, self.authority = folder / "cert.pem", folder / "key.pem", authority

    def write(self, pair):
        self.cert.write_text(pair[0])
        self.key.write_text(pair[1])
        self.key.chmod(0o600)
        return self

    @property
    def options(self):
        return ["--tls-cert", str(self.cert), "--tls-key", str(self.key)]
