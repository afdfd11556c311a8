use super::*;
use crate::config::Layers;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tracing_subscriber::layer::SubscriberExt as _;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is logged while `act` runs.
fn logged(format: LogFormat, act: impl FnOnce()) -> String {
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let subscriber = tracing_subscriber::registry().with(layer(format, move || writer.clone()));
    tracing::subscriber::with_default(subscriber, act);
    let bytes = buffer.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

const HOSTILE: [&str; 8] = [
    "a\r\n2026-01-01 INFO forged",
    "a\nb",
    "\x1b[2J\x1b[31mred",
    "\x1b]8;;http://evil\x07click\x1b]8;;\x07",
    "a\u{2028}b\u{2029}c\u{85}d",
    "user\u{202e}nimda",
    "\u{9b}31mC1",
    "nul\0\x08\x7f",
];

#[test]
fn one_event_is_one_line_without_hidden_characters() {
    for format in [LogFormat::Text, LogFormat::Json] {
        for text in HOSTILE {
            let log = logged(format, || {
                let span = tracing::info_span!("run", said = text, shown = %text);
                let _inside = span.enter();
                tracing::info!(quoted = text, plain = %text, "{text}");
            });
            let line = log.strip_suffix('\n').unwrap();
            assert!(
                !line.contains(cairn_rpc::text::is_hidden),
                "{format:?}: {line:?}"
            );
        }
    }
}

#[test]
fn json_lines_say_what_was_said() {
    for text in HOSTILE {
        let log = logged(LogFormat::Json, || tracing::warn!(code = 7, "{text}"));
        let event: serde_json::Value = serde_json::from_str(&log).unwrap();
        assert_eq!(event["message"], text);
        assert_eq!(event["code"], 7);
        assert_eq!(event["level"], "WARN");
    }
}

#[test]
fn text_lines_can_be_read_by_people() {
    let log = logged(LogFormat::Text, || {
        let _inside = tracing::info_span!("run", id = "r-1").entered();
        tracing::info!(steps = 3, "Grüße aus dem Lauf");
    });
    assert!(log.contains("INFO run{id=\"r-1\"}: "), "{log}");
    assert!(log.contains("Grüße aus dem Lauf steps=3"), "{log}");
}

#[test]
fn a_panic_is_one_line() {
    let log = logged(LogFormat::Json, || {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(log_panic));
        let outcome = std::panic::catch_unwind(|| panic!("first\nsecond"));
        std::panic::set_hook(usual);
        assert!(outcome.is_err());
    });
    let event: serde_json::Value = serde_json::from_str(&log).unwrap();
    assert_eq!(event["panic"], "first\nsecond");
    assert!(event["location"].as_str().unwrap().contains("tests.rs"));
}

#[test]
fn the_level_filters() {
    let levels = |level: &str| {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::registry()
            .with(filter(level).unwrap())
            .with(layer(LogFormat::Text, move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!("e");
            tracing::info!("i");
            tracing::debug!("d");
        });
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().count()
    };
    assert_eq!(levels("off"), 0);
    assert_eq!(levels("error"), 1);
    assert_eq!(levels("info"), 2);
    assert_eq!(levels("info,cairn_boot=debug"), 3);
}

#[test]
fn libraries_of_the_transport_are_quiet_unless_they_are_named() {
    let logged = |level: &str| {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::registry()
            .with(filter(level).unwrap())
            .with(layer(LogFormat::Text, move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "h2::codec::framed_write", "frame");
            tracing::debug!(target: "hyper_util::rt", "connection");
            tracing::trace!(target: "tower::buffer::worker", "worker");
            tracing::warn!(target: "rustls::client", "handshake");
            tracing::debug!(target: "cairn_rpc", "ours");
        });
        let bytes = buffer.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        let last = |line: &str| line.rsplit(' ').next().unwrap().to_owned();
        text.lines().map(last).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(logged("debug"), "handshake ours");
    assert_eq!(logged("trace"), "handshake ours");
    assert_eq!(logged("TRACE,cairn_rpc=info"), "handshake");
    assert_eq!(logged("debug,h2=debug"), "frame handshake ours");
    assert_eq!(logged("trace,tower::buffer=trace"), "worker handshake ours");
    assert_eq!(logged("debug,rustls=off"), "ours");
    assert_eq!(logged("warn"), "handshake");
    assert_eq!(logged("error"), "");
    assert_eq!(logged("off"), "");
}

#[test]
fn a_level_that_is_none_is_a_fault() {
    let errors = Layers::new()
        .flag("--log", "level", "loud=very")
        .flag("--log-format", "format", "xml")
        .load::<LogConfig>()
        .unwrap_err();
    let text = errors.to_string();
    assert!(
        text.contains("flag --log: level is \"loud=very\""),
        "{text}"
    );
    assert!(
        text.contains("format is \"xml\" (allowed: auto, text, json)"),
        "{text}"
    );
}
