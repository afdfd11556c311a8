//! Connections without an admitted call shut no client out, and both the log and the metrics show them.

use crate::support::CAIRN;
use cairn_testkit::Site;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// What an HTTP/2 client sends first: the preface, and settings without a setting.
const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn get(place: &str) -> String {
    let mut stream = TcpStream::connect(place).expect("a connection");
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {place}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn unauthenticated_connections_make_room_and_are_counted_and_logged() {
    let site = Site::new(CAIRN);
    let ports = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let serving = site.start(&[&["serve"][..], &ports, &["--json"]].concat(), &[]);
    let line: Value = serde_json::from_str(&serving.first_line).expect("JSON");
    let place = |name: &str| {
        let url = line[name].as_str().expect("a URL");
        let place = url.strip_prefix("http://").expect("a URL");
        place.split('/').next().unwrap_or_default().to_owned()
    };
    let open = || {
        let mut stream = TcpStream::connect(place("listen")).expect("a connection");
        // A connection that is refused may be gone already.
        let _ = stream.write_all(OPENING);
        stream
    };
    let mut idle: Vec<TcpStream> = (0..256).map(|_| open()).collect();
    for stream in &mut idle {
        // The server's settings: it has accepted the connection.
        stream.read_exact(&mut [0; 9]).expect("it is accepted");
    }
    let mut later: Vec<TcpStream> = (0..4).map(|_| open()).collect();
    for stream in &mut later {
        stream.read_exact(&mut [0; 9]).expect("it is accepted");
    }
    // What the server has sent before it closed the connection is read, and then there is no more.
    for stream in &mut idle[..4] {
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // Half-open requests keep no client out.
    let _half_open: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(place("metrics")).expect("a connection"))
        .collect();
    let metrics = get(&place("metrics"));
    let closed = "cairn_connections_closed_total{why=\"unauthenticated\"} ";
    let closed = metrics.lines().find_map(|line| line.strip_prefix(closed));
    let closed: u32 = closed.expect("a metric").parse().expect("a number");
    assert!(closed >= 4, "{metrics}");
    let log = site.read("listen.log").expect("a log");
    for part in [
        "connections without an admitted call closed",
        "\"peer\":\"127.0.0.1\"",
        "\"limit\":256",
    ] {
        assert!(log.contains(part), "{part} is not in {log}");
    }
    let server = format!("http://{}", place("listen"));
    let done = site.run(&["sessions", "--server", &server]);
    assert_eq!(done.code, Some(0), "{done:?}");
}
