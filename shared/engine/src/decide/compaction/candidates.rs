//! Which messages give way when a request takes too much of the window of its model, and to what.
//!
//! The goals come one after the other. Where a goal is reached, the first candidate counts that reaches it:
//! a history view before a summary, before the mark before behind it, and the more that stays the better.

use super::cuts::{Cuts, Part, Unit, part_of};
use super::room::{Room, Scale};
use super::text;
use crate::conversation::{CompactedMessages, CompactionKind, Conversation, Entry};
use crate::decide::{Compaction, FullRequest};
use crate::message::Message;
use crate::tokens::{of_message, of_text};
use std::cell::OnceCell;

/// A request that takes too much.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// What its attempt works in.
    pub(super) conversation: &'a Conversation,
    /// The attempt is a turn.
    pub(super) is_turn: bool,
    /// The estimate of what stands behind the conversation: results of the last calls, changes that no reply
    /// has seen, and notes.
    pub(super) newer: u64,
    /// The estimate of what the model is told of a compaction.
    pub(super) notice: u64,
    /// Its size.
    pub(super) size: FullRequest,
}

/// What happens to a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// This history view takes the place of the messages.
    History {
        messages: CompactedMessages,
        text: String,
    },
    /// A model is asked for a summary of the messages.
    Summary(Asked),
}

/// A question for a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) messages: CompactedMessages,
    /// Tokens of the question.
    pub(super) estimate: u64,
}

/// Something that could happen.
#[derive(Debug)]
struct Candidate {
    choice: Choice,
    /// Tokens of the request afterwards.
    after: u64,
    /// It is a view without its oldest lines.
    is_shortened: bool,
}

/// How short the request is to be.
struct Goal {
    tokens: u64,
    /// So many of the newest tool turns stay, or fewer.
    most_kept: u32,
    least_kept: u32,
    /// Views may lose their oldest lines.
    may_shorten: bool,
}

impl Request<'_> {
    /// What happens, if anything helps. `own_prompt`: a person gave the prompt, and so wants a summary.
    pub(super) fn choose(
        &self,
        compaction: Compaction,
        prompt: &str,
        own_prompt: bool,
    ) -> Option<Choice> {
        let sizes = Sizes::new(self, prompt, Unit::ToolTurn);
        let most = compaction.keep_turns.max(1);
        let mut by_kept: Vec<OnceCell<Vec<Candidate>>> =
            (0..most).map(|_| OnceCell::new()).collect();
        let mut found = None;
        'goals: for goal in self.goals(compaction) {
            for kept in (goal.least_kept..=goal.most_kept).rev() {
                let Some(candidates) = by_kept.get(kept as usize - 1) else {
                    continue;
                };
                let candidates = candidates.get_or_init(|| sizes.candidates(kept));
                let at = candidates.iter().position(|it| {
                    let is_summary = matches!(it.choice, Choice::Summary(_));
                    let is_allowed =
                        (is_summary || !own_prompt) && (goal.may_shorten || !it.is_shortened);
                    is_allowed && it.after <= goal.tokens
                });
                if let Some(at) = at {
                    found = Some((kept as usize - 1, at));
                    break 'goals;
                }
            }
        }
        let (kept, at) = found?;
        let candidates = by_kept.swap_remove(kept).into_inner()?;
        let found = candidates.into_iter().nth(at)?;
        Some(found.choice)
    }

    fn goals(&self, compaction: Compaction) -> [Goal; 5] {
        let size = &self.size;
        let room = Room::new(size.window, size.max_output_tokens);
        let kept = compaction.keep_turns.max(1);
        // A request that fits is worth a compaction only if that gives something.
        let least = match room.has(size.tokens) {
            true => size.window / LEAST_GAIN,
            false => 1,
        };
        let worth = size.tokens.saturating_sub(least);
        let goal = |tokens: u64, least_kept: u32, may_shorten: bool| Goal {
            tokens: tokens.min(worth),
            most_kept: kept,
            least_kept,
            may_shorten,
        };
        let share = Scale::permille(compaction.at_permille);
        [
            goal(size.window / 2, kept, false),
            goal(share.of(size.window), 1, false),
            goal(room.request(), 1, false),
            // A request that fits without its oldest facts is sent; a person would have to be asked otherwise.
            goal(room.request(), 1, !room.has(size.tokens)),
            goal(size.tokens - size.tokens / 10, 1, !room.has(size.tokens)),
        ]
    }

    /// A question for a summary of what is older than so many tool turns, or than fewer if nothing is; before
    /// the mark if anything is there.
    pub(super) fn summary_beyond(&self, kept: u32, prompt: &str) -> Option<Asked> {
        let sizes = Sizes::new(self, prompt, Unit::ToolTurn);
        let mut kept = (1..=kept.max(1)).rev();
        kept.find_map(|kept| {
            let parts = sizes.cuts.older_than(kept).into_iter().flatten();
            let mut parts = parts.filter(|part| sizes.has_said(part));
            parts.find_map(|part| {
                let with_compressed = !part.is_behind && sizes.takes_compressed();
                sizes.question(&part, with_compressed)
            })
        })
    }

    /// A question for a summary of these messages, or of so many of the oldest of them as it has room for.
    pub(super) fn summary_of(&self, part: Part, prompt: &str) -> Asked {
        let sizes = Sizes::new(self, prompt, Unit::Message);
        sizes.question(&part, false).unwrap_or_else(|| {
            // The executor knows whether it fits.
            let shortest = sizes.cuts.shorter(&part).last();
            sizes.asked(&shortest.unwrap_or(part), false)
        })
    }
}

/// The part of the window that a compaction gives at least if the request fits without it. Each one costs what a
/// provider has cached.
const LEAST_GAIN: u64 = 40;
/// The part of the window that compressed messages may take before a summary takes them in.
const MOST_COMPRESSED: u64 = 5;

/// Tokens of the parts of a request.
struct Sizes<'a> {
    request: &'a Request<'a>,
    cuts: Cuts<'a>,
    room: Room,
    scale: Scale,
    /// The estimate of the messages in front of each place, before the mark and behind it.
    before: Vec<u64>,
    behind: Vec<u64>,
    /// The first place before the mark that the request has.
    first_shown: usize,
    compressed: u64,
    /// Tokens of a question for a summary of nothing: what the request begins with, and the prompt.
    question: u64,
}

impl<'a> Sizes<'a> {
    fn new(request: &'a Request<'a>, prompt: &str, unit: Unit) -> Self {
        let (conversation, size) = (request.conversation, &request.size);
        let scale = Scale::new(size.tokens, size.estimated_tokens);
        let (before, behind) = (sums(&conversation.incremental), sums(&conversation.behind));
        let first_shown = conversation.incremental.len() - conversation.sent_in_window().len();
        let shown = whole(&before) - before.get(first_shown).copied().unwrap_or_default();
        let said = scale.of(shown + whole(&behind) + request.newer);
        let prompt = scale.of(of_message(&Message::user(prompt)));
        Self {
            request,
            cuts: Cuts::new(conversation, request.is_turn, unit),
            room: Room::new(size.window, size.max_output_tokens),
            scale,
            before,
            behind,
            first_shown,
            compressed: whole(&sums(&conversation.compressed)),
            question: size.tokens.saturating_sub(said).saturating_add(prompt),
        }
    }

    /// What can happen if so many of the newest tool turns stay, the better first.
    fn candidates(&self, kept: u32) -> Vec<Candidate> {
        let [before, behind] = self.cuts.older_than(kept);
        let views = [&before, &behind].into_iter().flatten();
        let views = views.filter_map(|part| self.view(part));
        let (shortened, whole): (Vec<_>, Vec<_>) = views.partition(|view| view.is_shortened);
        let before = self.summary(before.as_ref(), self.takes_compressed());
        let behind = self.summary(behind.as_ref(), false);
        let summaries = before.into_iter().chain(behind);
        whole
            .into_iter()
            .chain(summaries)
            .chain(shortened)
            .collect()
    }

    /// The compressed messages take so much that a summary takes them in.
    fn takes_compressed(&self) -> bool {
        let window = self.request.size.window;
        window > 0 && self.scale.of(self.compressed) > window / MOST_COMPRESSED
    }

    /// A history view in the place of the messages, if it is shorter. A summary behind the mark stays where it
    /// is, and what follows it gives way.
    fn view(&self, part: &Part) -> Option<Candidate> {
        let part = &match part.is_behind {
            true => self.cuts.after_summaries(part),
            false => part.clone(),
        };
        let view_before = match part.is_behind {
            true => None,
            false => {
                let last = self.request.conversation.compressed.last();
                last.filter(|last| last.compaction == Some(CompactionKind::History))
            }
        };
        let text = view_before.map(|entry| entry.message.text());
        let text = text::view_of(text.as_deref(), self.cuts.entries(part));
        let most = self.scale.estimate_of(self.room.view());
        let is_shortened = of_text(&text) > most;
        let text = match is_shortened {
            true => text::shortened(&text, most),
            false => text,
        };
        let gone = self.shown(part) + view_before.map_or(0, |entry| of_message(&entry.message));
        // In the role of the assistant it counts the same.
        let new = of_message(&Message::user(&*text));
        let after = self.after(gone, self.scale.of(new));
        (new < gone).then(|| Candidate {
            choice: Choice::History {
                messages: self.cuts.named(part),
                text,
            },
            after,
            is_shortened,
        })
    }

    /// A summary in the place of the messages, of which the question has room for, and of the compressed ones.
    fn summary(&self, part: Option<&Part>, with_compressed: bool) -> Option<Candidate> {
        let only_compressed = Part {
            is_behind: false,
            range: 0..0,
        };
        let asked = part.and_then(|part| self.question(part, with_compressed));
        let asked = asked.or_else(|| {
            let asked = self.asked(&only_compressed, true);
            (with_compressed && self.fits(&asked)).then_some(asked)
        })?;
        let part = part_of(self.request.conversation, &asked.messages)?;
        let compressed = if with_compressed { self.compressed } else { 0 };
        let gone = self.shown(&part) + compressed;
        let new = u64::from(self.room.summary());
        let after = self.after(gone, new);
        (new < self.scale.of(gone)).then_some(Candidate {
            choice: Choice::Summary(asked),
            after,
            is_shortened: false,
        })
    }

    /// A question for a summary of the messages, or of so many of the oldest of them as it has room for. None if
    /// it has room for none.
    fn question(&self, part: &Part, with_compressed: bool) -> Option<Asked> {
        let shorter = self.cuts.shorter(part);
        let mut parts = std::iter::once(part.clone()).chain(shorter);
        parts.find_map(|part| {
            let asked = self.asked(&part, with_compressed);
            self.fits(&asked).then_some(asked)
        })
    }

    fn asked(&self, part: &Part, with_compressed: bool) -> Asked {
        let sums = self.sums(part.is_behind);
        let messages = between(sums, part.range.start, part.range.end);
        Asked {
            messages: CompactedMessages {
                with_compressed,
                ..self.cuts.named(part)
            },
            estimate: self.question.saturating_add(self.scale.of(messages)),
        }
    }

    /// Not all of the messages stand for older ones already.
    fn has_said(&self, part: &Part) -> bool {
        let mut entries = self.cuts.entries(part).iter();
        entries.any(|entry| entry.compaction.is_none())
    }

    fn fits(&self, asked: &Asked) -> bool {
        asked.estimate <= self.room.question()
    }

    fn sums(&self, is_behind: bool) -> &[u64] {
        match is_behind {
            true => &self.behind,
            false => &self.before,
        }
    }

    /// The estimate of the messages of a part that the request has.
    fn shown(&self, part: &Part) -> u64 {
        let first = match part.is_behind {
            true => part.range.start,
            false => part.range.start.max(self.first_shown),
        };
        between(self.sums(part.is_behind), first, part.range.end)
    }

    /// Tokens of the request when messages of this estimate have given way to so many tokens. The model is
    /// told of it.
    fn after(&self, gone: u64, new: u64) -> u64 {
        let told = self.scale.of(self.request.notice);
        let rest = self.request.size.tokens.saturating_sub(self.scale.of(gone));
        rest.saturating_add(new).saturating_add(told)
    }
}

/// The estimate of the messages in front of each place.
fn sums(entries: &[Entry]) -> Vec<u64> {
    let mut sum = 0;
    let sums = entries.iter().map(|entry| {
        sum += of_message(&entry.message);
        sum
    });
    std::iter::once(0).chain(sums).collect()
}

fn whole(sums: &[u64]) -> u64 {
    sums.last().copied().unwrap_or_default()
}

fn between(sums: &[u64], first: usize, end: usize) -> u64 {
    let at = |place: usize| sums.get(place).copied().unwrap_or_default();
    at(end).saturating_sub(at(first))
}
