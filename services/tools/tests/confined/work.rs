//! What confined commands can do.

use crate::world::World;
use cairn_tools::{BoxError, Network};
use std::fs;
use std::process::Command;

const MANIFEST: &str =
    "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
const CODE: &str = "#[test]\nfn two() {\n    assert_eq!(1 + 1, 2);\n}\n";
const PYTHON: &str = "import unittest, tempfile, subprocess\n\
    class Test(unittest.TestCase):\n    def test(self):\n        \
    tempfile.TemporaryFile().close()\n        self.assertEqual(subprocess.run(['true']).returncode, 0)\n";
const NODE: &str =
    "const test = require('node:test');\ntest('two', (t) => t.assert.equal(1 + 1, 2));\n";
/// A server and a client of its own, over TCP.
const OVER_TCP: &str = "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\", LocalPort => {PORT}) \
    and IO::Socket::INET->new(\"127.0.0.1:{PORT}\") and print \"CONNECTED\"'";

/// Projects are built and tested where their toolchains are there.
pub(crate) fn is_done() {
    let mut world = World::with(|_| {});
    let ws = world.at().join("ws");
    fs::create_dir_all(ws.join("src")).unwrap();
    for (name, text) in [
        ("Cargo.toml", MANIFEST),
        ("src/lib.rs", CODE),
        ("test_two.py", PYTHON),
        ("two.test.js", NODE),
    ] {
        fs::write(ws.join(name), text).unwrap();
    }
    let mut tried = 0;
    for (program, command, says) in [
        (
            "git",
            "git init -q . && git add src && git -c user.name=a -c user.email=a@b commit -qm x && git log --oneline",
            " x\n",
        ),
        ("cargo", "cargo test --offline", "1 passed"),
        ("python3", "python3 -m unittest test_two", "OK"),
        ("node", "node --test two.test.js", "pass 1"),
    ] {
        if !is_there(program) {
            println!("{program} is not there, and was not tried");
            continue;
        }
        tried += 1;
        match world.run(command) {
            Ok(said) if said.contains(says) => println!("{program} works"),
            other => panic!("{program}: {other:?}"),
        }
    }
    assert!(tried > 0, "no toolchain is there");
    if World::holds().mounts && is_there("python3") {
        let said = world.run("python3 -c 'import multiprocessing; multiprocessing.Lock()'");
        assert_eq!(said.unwrap(), "exit status 0", "memory is shared by names");
    }
    assert!(world.damage().is_empty());
}

fn is_there(program: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    version.is_ok_and(|ran| ran.status.success())
}

/// A port that nothing listens on now.
fn port() -> Result<u16, BoxError> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}

pub(crate) fn network() {
    let port = port().unwrap();
    let command = OVER_TCP.replace("{PORT}", &port.to_string());
    // The first data open the connection: there is no call `connect`.
    let sent = "perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0) && send(S, \"x\", 0x20000000, sockaddr_in({PORT}, inet_aton(\"127.0.0.1\"))) && print \"CONNECTED\"'";
    let other = "perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0) && connect(S, sockaddr_in({PORT}, inet_aton(\"127.0.0.1\"))) && print \"CONNECTED\"'";
    for (network, is_open) in [
        (Network::None, false),
        (Network::Ports(vec![port]), true),
        (Network::Loopback, true),
    ] {
        let mut world = World::with(|config| config.shell.network = network.clone());
        let said = world.run(&command).unwrap();
        if network == Network::Loopback && said.contains("cannot get a network of its own") {
            println!("there are no networks of programs' own here, and this is said: {said}");
        } else {
            assert_eq!(said.contains("CONNECTED"), is_open, "{network:?}: {said}");
        }
        // What listens outside is on another port, or in another network.
        for other in [other, sent] {
            let said = world.run(&world.filled(other)).unwrap();
            assert!(!said.contains("CONNECTED"), "{network:?}: {said}");
        }
        assert!(world.damage().is_empty());
    }
}
