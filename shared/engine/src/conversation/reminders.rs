//! Which messages tell of which layers.

use super::{Entry, LayerKind, Reminded};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The reminders that the incremental messages of a conversation have, by layer, the oldest first. A call
/// by which the model changed session memory counts as one.
///
/// Each was added to what was then the last message. So their messages stand in the order of their numbers,
/// also if clients insert others between them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reminders(BTreeMap<LayerKind, Vec<Told>>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Told {
    /// The number of its message.
    number: u32,
    of: Reminded,
}

impl Reminders {
    /// Takes note of a reminder in the newest message, which has this number.
    pub(super) fn note(&mut self, number: u32, of: Reminded) {
        let told = self.0.entry(of.kind()).or_default();
        told.push(Told { number, of });
    }

    /// The messages of these numbers are gone, or are others now.
    pub(super) fn forget(&mut self, gone: impl IntoIterator<Item = u32>) {
        if self.0.is_empty() {
            return;
        }
        let gone: BTreeSet<u32> = gone.into_iter().collect();
        self.0.retain(|_, told| {
            told.retain(|it| !gone.contains(&it.number));
            !told.is_empty()
        });
    }

    /// Those of a layer, the oldest first, that are in the messages of a request. Without `shown` a request
    /// has all messages.
    pub(super) fn of<'a>(
        &'a self,
        kind: LayerKind,
        shown: Option<impl Iterator<Item = &'a Entry>>,
    ) -> impl DoubleEndedIterator<Item = &'a Reminded> {
        let told = self.0.get(&kind).map_or(&[][..], Vec::as_slice);
        let first = match shown {
            Some(mut shown) if !told.is_empty() => {
                let first = shown.find_map(|entry| {
                    let at = told.partition_point(|it| it.number < entry.number);
                    let is_it = told.get(at).is_some_and(|it| it.number == entry.number);
                    is_it.then_some(at)
                });
                first.unwrap_or(told.len())
            }
            _ => 0,
        };
        told[first..].iter().map(|it| &it.of)
    }
}
