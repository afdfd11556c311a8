//! The scripts: what the store asks of Redis in one step, and how it is asked.

use super::format::Formats;
use bytes::Bytes;
use redis::{Cmd, RedisError, Script as Source, Value};

/// A script behind the parts that it needs.
macro_rules! source {
    ($($part:literal),+) => {
        concat!(
            include_str!("scripts/prelude.lua"),
            $(include_str!(concat!("scripts/", $part, ".lua")),)+
        )
    };
}

/// Where the scripts take their time from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// From the server.
    Server,
    /// From the caller, as their last argument.
    #[cfg(any(test, feature = "conformance"))]
    Given,
}

/// One script, known to servers by its digest.
pub(super) struct Script {
    source: String,
    digest: String,
}

impl Script {
    fn new(clock: Clock, formats: Formats, parts: &str) -> Self {
        let clock = match clock {
            Clock::Server => include_str!("scripts/clock_server.lua"),
            #[cfg(any(test, feature = "conformance"))]
            Clock::Given => include_str!("scripts/clock_given.lua"),
        };
        Self::of(format!("{}{clock}{parts}", formats.lua()))
    }

    fn of(source: String) -> Self {
        let digest = Source::new(&source).get_hash().to_owned();
        Self { source, digest }
    }

    /// A call with these keys; arguments follow.
    pub(super) fn call(&self, keys: &[String]) -> Call<'_> {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.digest).arg(keys.len()).arg(keys);
        Call {
            script: Some(self),
            cmd,
            bytes: 0,
        }
    }

    /// The command that makes the script known to a server.
    pub(super) fn load(&self) -> Cmd {
        let mut cmd = redis::cmd("SCRIPT");
        cmd.arg("LOAD").arg(&self.source);
        cmd
    }
}

/// A script with what it is given, or a bare command.
pub(super) struct Call<'a> {
    pub(super) script: Option<&'a Script>,
    pub(super) cmd: Cmd,
    /// Bytes of the value that a bare command writes or reads.
    pub(super) bytes: usize,
}

impl Call<'_> {
    /// A command that needs no script, and writes or reads a value of so many bytes.
    pub(super) fn bare(cmd: Cmd, bytes: usize) -> Self {
        Self {
            script: None,
            cmd,
            bytes,
        }
    }

    pub(super) fn arg(mut self, value: impl redis::ToRedisArgs) -> Self {
        self.cmd.arg(value);
        self
    }

    /// Each of them as an argument.
    pub(super) fn all(mut self, values: &[Bytes]) -> Self {
        for value in values {
            self.cmd.arg(&value[..]);
        }
        self
    }
}

/// All scripts of a store.
pub(super) struct Scripts {
    pub(super) create: Script,
    pub(super) delete: Script,
    pub(super) idle: Script,
    pub(super) commit: Script,
    pub(super) append: Script,
    pub(super) memory: Script,
    pub(super) claim: Script,
    pub(super) wake: Script,
    pub(super) renew: Script,
    pub(super) release: Script,
    pub(super) quarantine: Script,
    pub(super) release_quarantine: Script,
    pub(super) put_blob: Script,
    pub(super) read: Script,
    pub(super) list_memory: Script,
    pub(super) copy_begin: Script,
    pub(super) copy_read: Script,
    pub(super) copy_blob: Script,
    pub(super) copy_append: Script,
    pub(super) copy_complete: Script,
    pub(super) copy_drop: Script,
    pub(super) document_write: Script,
    pub(super) document_list: Script,
    pub(super) document_purge: Script,
}

impl Scripts {
    pub(super) fn new(clock: Clock, formats: Formats) -> Self {
        let script = |parts| Script::new(clock, formats, parts);
        Self {
            create: script(source!("create")),
            delete: script(source!("delete")),
            idle: script(source!("idle")),
            commit: script(source!("plan", "commit")),
            append: script(source!("unowned", "append")),
            memory: script(source!("plan", "unowned", "memory")),
            claim: script(source!("claim")),
            wake: script(source!("wake")),
            renew: script(source!("renew")),
            release: script(source!("release")),
            quarantine: script(source!("quarantine")),
            release_quarantine: script(source!("release_quarantine")),
            put_blob: script(source!("put_blob")),
            read: script(source!("read")),
            list_memory: script(source!("list_memory")),
            copy_begin: script(source!("copies", "copy_begin")),
            copy_read: script(source!("copy_read")),
            copy_blob: script(source!("copies", "copy_blob")),
            copy_append: script(source!("copies", "copy_append")),
            copy_complete: script(source!("copies", "copy_complete")),
            copy_drop: script(source!("copy_drop")),
            document_write: script(source!("document_write")),
            document_list: script(source!("document_list")),
            document_purge: script(source!("document_purge")),
        }
    }
}

impl Scripts {
    /// The same, but transitions go without these checks.
    #[cfg(debug_assertions)]
    pub(super) fn sabotaged(mut self, sabotage: crate::sabotage::Sabotage) -> Self {
        self.commit = Script::of(sabotage.cut(&self.commit.source));
        self
    }
}

/// Whether the server does not know the script: then nothing of it ran.
pub(super) fn is_unknown(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::NoScript)
}

/// What a script or a command answered, taken apart from its front.
#[derive(Debug)]
pub(super) struct Reply(std::vec::IntoIter<Value>);

/// An answer that no version of the scripts gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server gave an answer that this program does not understand")]
pub(super) struct Odd;

impl Reply {
    pub(super) fn new(value: Value) -> Result<Self, Odd> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            Value::Map(pairs) => {
                let values: Vec<_> = pairs.into_iter().flat_map(|(k, v)| [k, v]).collect();
                Ok(Self(values.into_iter()))
            }
            _ => Err(Odd),
        }
    }

    /// The answers to several commands.
    pub(super) fn of(values: Vec<Value>) -> Self {
        Self(values.into_iter())
    }

    /// How much is left.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn value(&mut self) -> Result<Value, Odd> {
        self.0.next().ok_or(Odd)
    }

    pub(super) fn int(&mut self) -> Result<i64, Odd> {
        int(&self.value()?).ok_or(Odd)
    }

    /// A number that is never negative.
    pub(super) fn number(&mut self) -> Result<u64, Odd> {
        u64::try_from(self.int()?).map_err(|_| Odd)
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, Odd> {
        bytes(self.value()?).ok_or(Odd)
    }

    pub(super) fn text(&mut self) -> Result<String, Odd> {
        match self.value()? {
            // As they came, without another copy.
            Value::BulkString(text) => String::from_utf8(text),
            value => String::from_utf8(bytes(value).ok_or(Odd)?.into()),
        }
        .map_err(|_| Odd)
    }

    /// What is there, if anything is.
    pub(super) fn optional(&mut self) -> Result<Option<Bytes>, Odd> {
        match self.value()? {
            Value::Nil => Ok(None),
            value => bytes(value).map(Some).ok_or(Odd),
        }
    }

    pub(super) fn array(&mut self) -> Result<Self, Odd> {
        Self::new(self.value()?)
    }
}

/// A number, in whichever of the ways that servers give numbers.
pub(super) fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        Value::SimpleString(text) => text.parse().ok(),
        #[allow(
            clippy::cast_possible_truncation,
            reason = "scores are whole numbers below 2^53"
        )]
        Value::Double(number) => Some(*number as i64),
        _ => None,
    }
}

fn bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(bytes.into()),
        Value::SimpleString(text) => Some(text.into_bytes().into()),
        Value::Okay => Some(Bytes::from_static(b"OK")),
        Value::Int(number) => Some(number.to_string().into()),
        _ => None,
    }
}
