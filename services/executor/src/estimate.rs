//! How many tokens a request has, and whether they fit. No I/O.
//!
//! What the provider counted for an earlier request is exact while that request is the beginning of the next
//! one. The rest is estimated, and corrected by what the session has learned of the model.

use cairn_engine::conversation::Conversation;
use cairn_engine::message::Message;
use cairn_engine::tokens::{of_message, of_message_unseen};
use cairn_model::ModelInfo;
use cairn_proto::executor::{AttemptStart, FullRequest};
use std::sync::Arc;

/// What stands for a part of a whole is in thousandths.
const WHOLE: u64 = 1_000;
/// The part of the window that a reply is given which has no limit, and the most that any is given.
const PART_OF_REPLY: u64 = 20;
const MOST_OF_REPLY: u64 = 8;
/// A summary may be so many times as long as it is to be, because some models think before they write; and
/// this long in any case.
const LENIENCE: u32 = 4;
const LEAST_OUTPUT: u32 = 1_024;

/// The tokens of a request, tools included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// As far as they are known.
    pub(crate) tokens: u64,
    /// Estimated for a common model.
    pub(crate) estimated: u64,
}

/// What is known of the model of an attempt.
#[derive(Debug)]
pub(crate) struct Estimator {
    /// Its name in the settings; empty for the default one.
    model: String,
    window: u64,
    /// Thousandths of the window from which on a request is reported; 0 for none.
    compact_at: u64,
    /// What its provider counts, in thousandths of the estimate.
    factor: u64,
    /// Most tokens of a reply; 0 for not known.
    max_output_tokens: u32,
    /// It is sent pictures and documents, and not a line in place of each.
    sees: bool,
}

impl Estimator {
    /// For the model of this attempt.
    pub(crate) fn new(
        start: &AttemptStart,
        model: &ModelInfo,
        max_output_tokens: Option<u32>,
    ) -> Self {
        let factor = match start.estimate_permille {
            0 => WHOLE,
            permille => permille.into(),
        };
        Self {
            model: start.model.clone(),
            window: model.window_tokens,
            compact_at: start.compact_at_permille.into(),
            factor,
            max_output_tokens: max_output_tokens.unwrap_or_default(),
            sees: model.vision,
        }
    }

    /// The name of the model in the settings.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// Tokens of the window.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// The owner compacts the conversation when a request takes too much.
    pub(crate) fn compacts(&self) -> bool {
        self.compact_at > 0
    }

    /// A request with fewer tokens is not reported.
    pub(crate) fn limit(&self) -> u64 {
        (self.window.saturating_mul(self.compact_at) / WHOLE).max(1)
    }

    /// The estimate of messages, as they are sent to the model.
    pub(crate) fn estimate(&self, messages: &[Arc<Message>]) -> u64 {
        messages.iter().map(|message| self.of(message)).sum()
    }

    fn of(&self, message: &Message) -> u64 {
        match self.sees {
            true => of_message(message),
            false => of_message_unseen(message),
        }
    }

    /// The tokens of a request with these messages of a conversation, and with tools that are estimated so.
    pub(crate) fn size(
        &self,
        conversation: &Conversation,
        messages: &[Arc<Message>],
        tools: u64,
    ) -> Size {
        let estimated = self.estimate(messages).saturating_add(tools);
        let measured = conversation.measured.as_ref();
        let tokens = match measured.filter(|measured| measured.model == self.model) {
            Some(measured) => {
                let newer = conversation.newer_than(measured.through);
                let newer: u64 = newer.map(|entry| self.of(&entry.message)).sum();
                // The notes are the last message.
                let scratch = messages.last().filter(|_| !conversation.scratch.is_empty());
                let scratch = scratch.map_or(0, |scratch| self.of(scratch));
                let uncounted = newer.saturating_add(scratch).saturating_add(tools);
                measured.tokens.saturating_add(self.corrected(uncounted))
            }
            None => self.corrected(estimated),
        };
        Size { tokens, estimated }
    }

    /// The tokens of a request that is estimated so, and has messages of a larger one.
    pub(crate) fn part_of(&self, whole: Size, estimated: u64) -> Size {
        let tokens = match whole.estimated {
            0 => self.corrected(estimated),
            all => {
                let tokens = u128::from(whole.tokens) * u128::from(estimated) / u128::from(all);
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
        };
        Size { tokens, estimated }
    }

    /// A request and a summary of so many tokens fit into the window, and a little is left.
    pub(crate) fn has_room(&self, request: Size, summary: u32) -> bool {
        let needed = request.tokens.saturating_add(summary.into());
        needed.saturating_add(self.reserve()) <= self.window
    }

    /// Tokens that stay free.
    fn reserve(&self) -> u64 {
        let reply = match self.max_output_tokens {
            0 => self.window / PART_OF_REPLY,
            most => most.into(),
        };
        reply.min(self.window / MOST_OF_REPLY)
    }

    /// Most tokens that the model may write after this request, for a summary of so many. Some servers refuse a
    /// request that does not fit together with them, so the reserve makes up for an estimate that is too low.
    pub(crate) fn output_of_summary(&self, request: Size, summary: u32) -> u32 {
        let taken = request.tokens.saturating_add(self.reserve());
        let room = self.window.saturating_sub(taken);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let most = summary.saturating_mul(LENIENCE).max(LEAST_OUTPUT);
        most.min(room).max(summary)
    }

    /// What is reported of a request that takes too much of the window.
    pub(crate) fn full(&self, request: Size) -> FullRequest {
        FullRequest {
            tokens: request.tokens.max(1),
            estimated_tokens: request.estimated,
            window_tokens: self.window,
            max_output_tokens: self.max_output_tokens,
            is_refused: false,
        }
    }

    /// What is reported of a request that the provider has refused for its length: whatever its tokens are, it
    /// does not fit.
    pub(crate) fn refused(&self, request: Size) -> FullRequest {
        let beyond = self.window.saturating_add(1);
        FullRequest {
            tokens: request.tokens.max(beyond),
            is_refused: true,
            ..self.full(request)
        }
    }

    fn corrected(&self, estimated: u64) -> u64 {
        estimated.saturating_mul(self.factor) / WHOLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::message::{Media, Usage};
    use cairn_engine::tokens::estimate_tokens;

    const TOOLS: u64 = 100;

    fn estimator(permille: u32, window: u64) -> Estimator {
        let start = AttemptStart {
            model: "m".to_owned(),
            estimate_permille: permille,
            compact_at_permille: 700,
            ..AttemptStart::default()
        };
        let model = ModelInfo {
            provider: "test".to_owned(),
            name: "test".to_owned(),
            window_tokens: window,
            vision: true,
            prices: None,
        };
        Estimator::new(&start, &model, None)
    }

    /// A question that was answered. The provider counted 900 tokens, and the estimate was 600.
    fn measured() -> Conversation {
        let mut said = Conversation::default();
        said.append(Message::user("Look in spring."));
        let usage = Usage {
            input_tokens: 900,
            model_calls: 1,
            ..Usage::default()
        };
        said.measure("m", &usage, 600);
        said.append(Message::assistant("I look.", Vec::new()));
        said
    }

    fn size(estimator: &Estimator, said: &Conversation) -> Size {
        estimator.size(said, &said.messages(), TOOLS)
    }

    #[test]
    fn only_what_was_not_counted_is_estimated_and_corrected() {
        let mut said = measured();
        let counted = said.measured.as_ref().map(|it| it.tokens);
        let counted = counted.expect("a count");
        let newest = of_message(&said.behind[1].message);
        let estimator = estimator(2_000, 8_000);
        let of_all = estimate_tokens(&said.messages()) + TOOLS;
        let expected = Size {
            tokens: counted + 2 * (newest + TOOLS),
            estimated: of_all,
        };
        assert_eq!(size(&estimator, &said), expected);
        // The notes are in the estimate, and in no count.
        said.scratch = "A note of some words.".to_owned();
        let note = of_message(&Message::user(&*said.scratch));
        let with_note = size(&estimator, &said);
        assert_eq!(with_note.tokens, expected.tokens + 2 * note);
        assert_eq!(with_note.estimated, expected.estimated + note);
    }

    #[test]
    fn without_a_count_for_the_model_all_is_estimated_and_corrected() {
        let mut said = measured();
        if let Some(measured) = &mut said.measured {
            measured.model = "other".to_owned();
        }
        for (permille, factor) in [(0, 1_000), (1_000, 1_000), (1_500, 1_500)] {
            let size = size(&estimator(permille, 8_000), &said);
            assert_eq!(size.tokens, size.estimated * factor / 1_000);
        }
        said.measured = None;
        let size = size(&estimator(3_000, 8_000), &said);
        assert_eq!(size.tokens, 3 * size.estimated);
    }

    /// Else a file that no model is sent fills the window, and no compaction helps.
    #[test]
    fn a_file_costs_a_line_where_the_model_does_not_see() {
        let mut said = measured();
        let file = Media {
            mime: "application/pdf".to_owned(),
            data: vec![0; 1 << 20],
        };
        said.append(Message::user("Read it.").with_media([file]));
        let sees = estimator(1_000, 8_000);
        let blind = Estimator {
            sees: false,
            ..estimator(1_000, 8_000)
        };
        let (seen, unseen) = (size(&sees, &said), size(&blind, &said));
        let less = seen.estimated - unseen.estimated;
        assert!(unseen.tokens < 8_000 && less > 60_000, "{unseen:?}");
        assert_eq!(seen.tokens - unseen.tokens, less);
    }

    #[test]
    fn a_part_of_a_request_has_its_share_of_the_tokens() {
        let whole = Size {
            tokens: 900,
            estimated: 600,
        };
        let estimator = estimator(2_000, 8_000);
        assert_eq!(estimator.part_of(whole, 200).tokens, 300);
        let nothing = Size {
            tokens: 0,
            estimated: 0,
        };
        assert_eq!(estimator.part_of(nothing, 200).tokens, 400);
    }

    #[test]
    fn a_request_is_reported_at_its_share_of_the_window() {
        assert_eq!(estimator(0, 8_000).limit(), 5_600);
        assert_eq!(estimator(0, 1).limit(), 1);
        let never = Estimator {
            compact_at: 0,
            ..estimator(0, 8_000)
        };
        assert!(!never.compacts());
    }

    #[test]
    fn a_summary_leaves_room_for_a_reply() {
        let request = |tokens| Size {
            tokens,
            estimated: 1,
        };
        let unlimited = estimator(0, 8_000);
        assert!(unlimited.has_room(request(6_600), 1_000));
        assert!(!unlimited.has_room(request(6_601), 1_000));
        // An eighth of the window is the most.
        let long = Estimator {
            max_output_tokens: 5_000,
            ..estimator(0, 8_000)
        };
        assert!(long.has_room(request(6_000), 1_000));
        assert!(!long.has_room(request(6_001), 1_000));
        let written = |tokens, summary| unlimited.output_of_summary(request(tokens), summary);
        assert_eq!(written(100, 1_000), 4_000);
        assert_eq!(written(100, 64), 1_024);
        assert_eq!(written(5_600, 1_000), 2_000);
        assert_eq!(written(6_600, 1_000), 1_000);
        assert_eq!(written(7_900, 1_000), 1_000);
    }

    #[test]
    fn a_refused_request_has_more_tokens_than_the_window() {
        let estimator = estimator(0, 8_000);
        for (tokens, reported) in [(100, 8_001), (9_000, 9_000)] {
            let request = Size {
                tokens,
                estimated: 90,
            };
            let full = estimator.refused(request);
            assert_eq!((full.tokens, full.window_tokens), (reported, 8_000));
            assert_eq!(full.estimated_tokens, 90);
            assert_eq!(estimator.full(request).tokens, tokens);
        }
    }
}
