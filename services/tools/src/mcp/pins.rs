//! Whether tools are as they were when they were allowed.

use crate::tool::ToolSpec;
use cairn_boot::{Pins, Trust};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The operator's own declaration decides this part, and the server's hints, which are a part of their
/// own.
const NOT_PINNED: &str = "effect";

/// The pins of one server: in the trust file, or in memory without one.
pub(crate) struct Store {
    trust: Option<Trust>,
    /// The server's name, and what it is.
    server: String,
    /// The name of the same pins in files of earlier versions: they count until the next change.
    before: String,
    memory: Mutex<Option<Pins>>,
}

impl Store {
    pub(crate) fn new(trust: Option<Trust>, server: String, before: String) -> Self {
        Self {
            trust,
            server,
            before,
            memory: Mutex::new(None),
        }
    }

    /// The pins. The first tools of a server that has none are pinned as they are.
    ///
    /// # Errors
    /// They cannot be read or kept.
    pub(crate) fn or_first(&self, tools: &[&ToolSpec]) -> Result<Pins, String> {
        match self.get()? {
            Some(pins) => Ok(pins),
            // A server that lists nothing yet is not known yet.
            None if tools.is_empty() => Ok(Pins::new()),
            None => {
                self.change(|pins| pins.unwrap_or_else(|| tools.iter().map(|it| pin(it)).collect()))
            }
        }
    }

    /// Pins a tool as it is now.
    ///
    /// # Errors
    /// It cannot be kept.
    pub(crate) fn allow(&self, tool: &ToolSpec) -> Result<(), String> {
        self.change(|pins| {
            let mut pins = pins.unwrap_or_default();
            pins.extend([pin(tool)]);
            pins
        })
        .map(|_| ())
    }

    fn get(&self) -> Result<Option<Pins>, String> {
        match &self.trust {
            Some(trust) => {
                let pins = trust.pins(&self.server);
                let pins = pins.and_then(|pins| match pins {
                    Some(pins) => Ok(Some(pins)),
                    None => trust.pins(&self.before),
                });
                pins.map_err(|error| error.to_string())
            }
            None => Ok(self
                .memory
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()),
        }
    }

    fn change(&self, change: impl FnOnce(Option<Pins>) -> Pins) -> Result<Pins, String> {
        match &self.trust {
            Some(trust) => {
                let before = self.get()?;
                trust
                    .change_pins(&self.server, |pins| change(pins.or(before)))
                    .map_err(|error| error.to_string())
            }
            None => {
                let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
                let pins = change(memory.take());
                *memory = Some(pins.clone());
                Ok(pins)
            }
        }
    }
}

fn pin(tool: &ToolSpec) -> (String, BTreeMap<String, String>) {
    (tool.name.clone(), parts(tool))
}

fn parts(tool: &ToolSpec) -> BTreeMap<String, String> {
    let parts = tool.parts().into_iter();
    let pinned = parts.filter(|(part, _)| *part != NOT_PINNED);
    pinned
        .map(|(part, digest)| (part.to_owned(), digest))
        .collect()
}

/// A part as a person knows it.
fn words(part: &str) -> &str {
    match part {
        "input_schema" => "schema of arguments",
        "output_schema" => "schema of results",
        other => other,
    }
}

/// Why a tool waits for a person, if it is not as it was allowed.
pub(crate) fn disabled(pins: &Pins, tool: &ToolSpec) -> Option<String> {
    let Some(pinned) = pins.get(&tool.name) else {
        return Some("it is new since its server was first listed".to_owned());
    };
    let now = parts(tool);
    let changed: Vec<&str> = now
        .iter()
        .filter(|(part, digest)| pinned.get(*part) != Some(digest))
        .map(|(part, _)| words(part))
        .collect();
    (!changed.is_empty()).then(|| format!("its {} changed", changed.join(" and its ")))
}
