//! What is logged on the thread of a test, and a panic in the midst of it.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps errors, and panics at one of them.
struct PanicsAt {
    text: &'static str,
    errors: Arc<Mutex<String>>,
}

/// Whoever logs an error with this text panics, as long as the guard is there. Errors are kept,
/// each on a line with its fields.
pub(crate) fn panic_at_error(text: &'static str) -> (DefaultGuard, Arc<Mutex<String>>) {
    let errors = Arc::default();
    let subscriber = PanicsAt {
        text,
        errors: Arc::clone(&errors),
    };
    (set_default(subscriber), errors)
}

impl Subscriber for PanicsAt {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        let Message { message, fields } = message;
        writeln!(self.errors.lock().unwrap(), "{message}{fields}").unwrap();
        assert!(!message.contains(self.text), "a panic of the test");
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

#[derive(Default)]
struct Message {
    message: String,
    fields: String,
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => write!(self.fields, " {name}={value:?}").unwrap(),
        }
    }
}
