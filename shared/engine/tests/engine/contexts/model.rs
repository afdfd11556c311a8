//! Contexts once more, written from their description alone: zones, indices, notices.

use cairn_engine::message::{Message, Part, Role};
use cairn_engine::session::Notice;
use std::collections::BTreeMap;

/// A message as the model knows it: its author, and the first thing that it holds.
pub(crate) type Line = (Role, String);

/// What a client asks of the incremental zone.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Append(Line),
    Extend(Vec<Line>),
    Update(u32, Line),
    Insert(u32, Line),
    Remove(u32),
    Pop,
    Retain(Role),
    Clear,
    /// Requests have so many of the latest messages, or all.
    Window(Option<u32>),
}

/// A context: three zones, of which only the last one changes, and the window over that.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Zones {
    pub(crate) immutable: Vec<Line>,
    pub(crate) compressed: Vec<Line>,
    pub(crate) incremental: Vec<Line>,
    pub(crate) window: Option<u32>,
}

impl Zones {
    pub(crate) fn all(&self) -> Vec<&Line> {
        let zones = [&self.immutable, &self.compressed, &self.incremental];
        zones.into_iter().flatten().collect()
    }

    pub(crate) fn of_role(&self, role: Role) -> usize {
        self.all().iter().filter(|line| line.0 == role).count()
    }

    /// The notices of a change; an error if its index is beyond the end.
    pub(crate) fn change(&mut self, change: &Change) -> Result<Vec<Seen>, ()> {
        let zone = &mut self.incremental;
        let end = zone.len();
        let within = |index: &u32, end: usize| match (*index as usize) < end {
            true => Ok(*index as usize),
            false => Err(()),
        };
        Ok(vec![match change {
            Change::Append(line) => {
                zone.push(line.clone());
                Seen::Appended(line.clone())
            }
            Change::Extend(lines) => {
                zone.extend(lines.iter().cloned());
                return Ok(lines.iter().cloned().map(Seen::Appended).collect());
            }
            Change::Update(index, line) => {
                zone[within(index, end)?] = line.clone();
                Seen::Updated(*index, line.clone())
            }
            Change::Insert(index, line) => {
                zone.insert(within(index, end + 1)?, line.clone());
                Seen::Inserted(*index, line.clone())
            }
            Change::Remove(index) => {
                zone.remove(within(index, end)?);
                Seen::Removed(*index)
            }
            Change::Pop => Seen::Popped(zone.pop()),
            Change::Retain(role) => {
                zone.retain(|line| line.0 == *role);
                Seen::Retained(*role)
            }
            Change::Clear => {
                zone.clear();
                Seen::Cleared
            }
            Change::Window(window) => {
                self.window = *window;
                return Ok(Vec::new());
            }
        }])
    }

    /// The messages through that index give way to one. A view takes the place of the view before it.
    pub(crate) fn compact(&mut self, through: usize, line: Line) -> Seen {
        self.incremental.drain(..=through);
        let is_view = |line: &Line| line.1.starts_with("view");
        if is_view(&line) && self.compressed.last().is_some_and(is_view) {
            self.compressed.pop();
        }
        self.compressed.push(line.clone());
        Seen::Compacted(Some(through as u32), line)
    }

    /// What a request has before the messages of its turn.
    pub(crate) fn sent(&self) -> Vec<&Line> {
        let length = self.incremental.len();
        let most = self.window.map_or(length, |most| most as usize);
        let shown = &self.incremental[length.saturating_sub(most)..];
        let before = self.immutable.iter().chain(&self.compressed);
        before.chain(shown).collect()
    }
}

/// A notice as the model knows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    Appended(Line),
    Updated(u32, Line),
    Inserted(u32, Line),
    Removed(u32),
    Popped(Option<Line>),
    Retained(Role),
    Cleared,
    Compacted(Option<u32>, Line),
}

impl Seen {
    pub(crate) fn of(notice: &Notice) -> Self {
        match notice {
            Notice::Appended(message) => Self::Appended(line(message)),
            Notice::Updated { index, message } => Self::Updated(*index, line(message)),
            Notice::Inserted { index, message } => Self::Inserted(*index, line(message)),
            Notice::Removed { index } => Self::Removed(*index),
            Notice::Popped(message) => Self::Popped(message.as_ref().map(line)),
            Notice::Retained(role) => Self::Retained(*role),
            Notice::Cleared => Self::Cleared,
            Notice::Compacted {
                through, message, ..
            } => Self::Compacted(*through, line(message)),
        }
    }

    /// What a subscriber makes of it, who knows nothing but notices.
    pub(crate) fn replay(self, zone: &mut Vec<Line>) {
        match self {
            Self::Appended(line) => zone.push(line),
            Self::Updated(index, line) => zone[index as usize] = line,
            Self::Inserted(index, line) => zone.insert(index as usize, line),
            Self::Removed(index) => drop(zone.remove(index as usize)),
            Self::Popped(line) => assert_eq!(zone.pop(), line),
            Self::Retained(role) => zone.retain(|line| line.0 == role),
            Self::Cleared => zone.clear(),
            Self::Compacted(through, _) => {
                zone.drain(..through.map_or(0, |through| through as usize + 1));
            }
        }
    }
}

pub(crate) fn line(message: &Message) -> Line {
    let text = match message.parts.first() {
        Some(Part::Text(text)) => text.clone(),
        Some(Part::Notice(notice)) => notice.text.clone(),
        Some(Part::Call(call)) => call.name.clone(),
        Some(Part::Result(result)) => result.text.clone(),
        _ => String::new(),
    };
    (message.role, text)
}

pub(crate) fn message((role, text): &Line) -> Message {
    match role {
        Role::Tool => Message::tool("call", text, false),
        Role::Assistant => Message::assistant(text, Vec::new()),
        Role::User | Role::System => Message::user(text),
    }
}

/// The contexts of a session by name, and which one is active.
#[derive(Debug, Clone)]
pub(crate) struct Contexts {
    pub(crate) named: BTreeMap<String, Zones>,
    pub(crate) active: String,
    /// The context of the turn that has not ended, and what was said in the turn: no context has that yet.
    pub(crate) turn: Option<(String, Vec<Line>)>,
}

impl Contexts {
    pub(crate) fn new() -> Self {
        let main = "main".to_owned();
        Self {
            named: [(main.clone(), Zones::default())].into(),
            active: main,
            turn: None,
        }
    }

    pub(crate) fn name(&self, asked: &str) -> String {
        match asked {
            "" => self.active.clone(),
            name => name.to_owned(),
        }
    }
}
