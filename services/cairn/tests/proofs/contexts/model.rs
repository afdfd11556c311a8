//! Contexts once more, written from their description alone: zones, indices, notices.

use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use pb::context_notice::Notice as Wire;
use wire::Role;

/// Author and text of a message.
pub(super) type Line = (i32, String);

/// A change that a client asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    Append(Line),
    Extend(Vec<Line>),
    Update(u32, Line),
    Insert(u32, Line),
    Remove(u32),
    Pop,
    Retain(i32),
    Clear,
    Import(Vec<Line>),
}

/// What every subscriber is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Notice {
    Appended(Line),
    Updated(u32, Line),
    Inserted(u32, Line),
    Removed(u32),
    Popped(Option<Line>),
    Retained(i32),
    Cleared,
}

/// A context: of its zones only the last one changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Zones {
    pub(super) immutable: Vec<Line>,
    pub(super) incremental: Vec<Line>,
}

impl Zones {
    pub(super) fn all(&self) -> Vec<Line> {
        let zones = [&self.immutable, &self.incremental];
        zones.into_iter().flatten().cloned().collect()
    }

    /// Changes it and returns the notices; none if the index is beyond the end.
    pub(super) fn change(&mut self, change: &Change) -> Option<Vec<Notice>> {
        let zone = &mut self.incremental;
        let within = |index: u32, end: usize| Some(index as usize).filter(|at| *at < end);
        Some(vec![match change {
            Change::Append(line) => {
                zone.push(line.clone());
                Notice::Appended(line.clone())
            }
            Change::Extend(lines) | Change::Import(lines) => {
                zone.extend(lines.iter().cloned());
                return Some(lines.iter().cloned().map(Notice::Appended).collect());
            }
            Change::Update(index, line) => {
                let at = within(*index, zone.len())?;
                zone[at] = line.clone();
                Notice::Updated(*index, line.clone())
            }
            Change::Insert(index, line) => {
                let at = within(*index, zone.len() + 1)?;
                zone.insert(at, line.clone());
                Notice::Inserted(*index, line.clone())
            }
            Change::Remove(index) => {
                let at = within(*index, zone.len())?;
                zone.remove(at);
                Notice::Removed(*index)
            }
            Change::Pop => Notice::Popped(zone.pop()),
            Change::Retain(role) => {
                zone.retain(|line| line.0 == *role);
                Notice::Retained(*role)
            }
            Change::Clear => {
                zone.clear();
                Notice::Cleared
            }
        }])
    }
}

pub(super) fn message(line: &Line) -> wire::Message {
    use wire::part::Part;
    let part = match Role::try_from(line.0) {
        Ok(Role::Tool) => Part::Result(wire::ToolResult {
            call_id: "call".to_owned(),
            text: line.1.clone(),
            is_error: false,
        }),
        _ => Part::Text(line.1.clone()),
    };
    wire::Message {
        role: line.0,
        parts: vec![part.into()],
    }
}

/// The line of a message, which has one part.
pub(super) fn line(message: Option<&wire::Message>) -> Line {
    use wire::part::Part;
    let message = message.expect("a message");
    let text = match &message.parts[..] {
        [
            wire::Part {
                part: Some(Part::Text(text)),
                ..
            },
        ] => text.clone(),
        [
            wire::Part {
                part: Some(Part::Result(result)),
                ..
            },
        ] => result.text.clone(),
        other => panic!("{other:?}"),
    };
    (message.role, text)
}

pub(super) fn notice(notice: &pb::ContextNotice) -> Notice {
    match notice.notice.as_ref().expect("a notice") {
        Wire::Appended(it) => Notice::Appended(line(it.message.as_ref())),
        Wire::Updated(it) => Notice::Updated(it.index, line(it.message.as_ref())),
        Wire::Inserted(it) => Notice::Inserted(it.index, line(it.message.as_ref())),
        Wire::Removed(it) => Notice::Removed(it.index),
        Wire::Popped(it) => Notice::Popped(it.message.as_ref().map(|it| line(Some(it)))),
        Wire::Retained(it) => Notice::Retained(it.role),
        Wire::Cleared(_) => Notice::Cleared,
        Wire::Compacted(it) => panic!("nothing is to be compacted: {it:?}"),
    }
}
