use super::*;
use crate::logs::{self, LogFormat};
use opentelemetry_sdk::error::OTelSdkError;
use std::io::{self, Write};
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

fn logged(act: impl FnOnce()) -> Vec<String> {
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let layer = logs::layer(LogFormat::Json, move || writer.clone());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), act);
    let bytes = buffer.0.lock().unwrap().clone();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let queue = Queue::new(2);
    assert!(queue.enter() && queue.enter());
    assert!(!queue.enter());
    queue.waiting.fetch_sub(1, Ordering::Relaxed);
    assert!(queue.enter());
    assert!(!queue.enter());
    assert_eq!(queue.lost.load(Ordering::Relaxed), 2);
}

#[test]
fn trouble_is_reported_once_a_minute_with_all_that_was_lost() {
    let queue = Queue::new(1);
    let failed = || Err(OTelSdkError::InternalFailure("unavailable".to_owned()));
    let start = Instant::now();
    let lines = logged(|| {
        queue.report(&Ok(()), start);
        for second in 0..120 {
            queue.lost.fetch_add(10, Ordering::Relaxed);
            queue.report(&failed(), start + Duration::from_secs(second));
        }
        queue.report(&Ok(()), start + Duration::from_secs(120));
        queue.report(&Ok(()), start + Duration::from_secs(240));
    });
    let lost: Vec<bool> = [10, 600, 590]
        .iter()
        .zip(&lines)
        .map(|(lost, line)| line.contains(&format!("\"lost\":{lost}")))
        .collect();
    assert_eq!(lost, [true; 3], "{lines:#?}");
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].contains("unavailable") && lines[2].contains("in time"));
}
