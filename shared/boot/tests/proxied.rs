//! Spans on their way to a collector behind a proxy. One test only: what it sets up holds for the process.

#![allow(clippy::unwrap_used, reason = "a test")]

use cairn_boot::telemetry::Standard;
use cairn_boot::{LogConfig, TelemetryConfig, telemetry};
use cairn_http::Proxies;
use cairn_rpc::trace::TARGET;
use cairn_testkit::Collector;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// A proxy that leads every tunnel to `target`, its address, and the heads of the requests.
fn proxy(target: String) -> (String, Receiver<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, heads) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut client = stream.unwrap();
            let mut reader = BufReader::new(client.try_clone().unwrap());
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                match line.trim() {
                    "" => break,
                    line => head.push(line.to_owned()),
                }
            }
            // The test may have ended.
            let _ = tell.send(head);
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            // The client speaks first: what the server sends must not come with the proxy's answer.
            reader.fill_buf().unwrap();
            let server = TcpStream::connect(&target).unwrap();
            let (mut back, mut to) = (server.try_clone().unwrap(), server);
            thread::spawn(move || std::io::copy(&mut reader, &mut to));
            thread::spawn(move || std::io::copy(&mut back, &mut client));
        }
    });
    (address, heads)
}

#[test]
fn spans_take_a_tunnel_through_the_proxy() {
    let collector = Collector::start();
    let target = collector.endpoint().replace("http://", "");
    let (address, heads) = proxy(target);
    let url = format!("http://user:word@{address}");
    let config = TelemetryConfig {
        otlp: Some("http://collector.invalid:4317".to_owned()),
        ..TelemetryConfig::default()
    };
    let log = LogConfig {
        level: "off".to_owned(),
        ..LogConfig::default()
    };
    let proxies = Proxies::read(|name| (name == "HTTP_PROXY").then_some(url.as_str()));
    let telemetry = telemetry::init(
        &config,
        &Standard::default(),
        &log,
        &[],
        &proxies,
        std::io::stderr,
    );
    let telemetry = telemetry.unwrap();
    tracing::info_span!(target: TARGET, "proxied").in_scope(|| {});
    telemetry.flush_and_stop();
    collector.wait_for(|spans| spans.iter().any(|span| span.name == "proxied"));
    let head = heads.recv().unwrap();
    assert_eq!(head[0], "CONNECT collector.invalid:4317 HTTP/1.1");
    let is_credentials =
        |line: &String| line.eq_ignore_ascii_case("proxy-authorization: Basic dXNlcjp3b3Jk");
    assert!(head.iter().any(is_credentials), "{head:?}");
}
