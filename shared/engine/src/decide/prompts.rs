//! The prompts that decisions put into conversations.

use super::words::{CONVERSATION, EXECUTION, GUIDE, SUMMARY};
use std::fmt;
use std::sync::LazyLock;

/// Stands in the prompt for a summary where the most words of the summary belong. No text has this character.
pub const WORDS: &str = "\u{f8f3}";

/// The prompts of a process, with their variables replaced.
#[derive(Clone, PartialEq, Eq)]
pub struct Prompts {
    step: String,
    turn: String,
    summary: String,
}

impl Prompts {
    /// How a step is carried out, how its tools are used, how a turn is carried out, and how a summary is asked for.
    /// In the last one [`WORDS`] is replaced by a number.
    pub fn new(execution: &str, guide: &str, conversation: &str, summary: &str) -> Self {
        let layers = [execution, guide].map(str::trim_ascii_end);
        let layers = layers.into_iter().filter(|layer| !layer.is_empty());
        Self {
            step: layers.collect::<Vec<_>>().join("\n\n"),
            turn: conversation.trim_ascii_end().to_owned(),
            summary: summary.trim_ascii_end().to_owned(),
        }
    }

    /// The prompts that are part of Cairn.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<Prompts> = LazyLock::new(|| {
            let summary = SUMMARY.replace("{words}", WORDS);
            Prompts::new(EXECUTION, GUIDE, CONVERSATION, &summary)
        });
        &BUILT_IN
    }

    /// The first layer of the system prompt of a step.
    pub(super) fn step(&self) -> &str {
        &self.step
    }

    /// The first layer of the system prompt of a turn.
    pub(super) fn turn(&self) -> &str {
        &self.turn
    }

    /// Asks for a summary of at most so many words.
    pub(super) fn summary(&self, words: u32) -> String {
        self.summary.replace(WORDS, &words.to_string())
    }
}

/// Without the texts: values of an operator's variables stand in them.
impl fmt::Debug for Prompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompts").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_prompts_are_the_files_without_their_ends() {
        let prompts = Prompts::built_in();
        let step = format!("{EXECUTION}\n{GUIDE}");
        assert_eq!(prompts.step(), step.trim_ascii_end());
        assert_eq!(prompts.turn(), CONVERSATION.trim_ascii_end());
        let summary = SUMMARY.replace("{words}", "250");
        assert_eq!(prompts.summary(250), summary.trim_ascii_end());
    }

    #[test]
    fn a_prompt_without_text_leaves_no_blank_lines() {
        let prompts = Prompts::new("Work.\n", "\n", "Talk.", "Sum up.");
        let said = (prompts.step(), prompts.turn(), prompts.summary(1));
        assert_eq!(said, ("Work.", "Talk.", "Sum up.".to_owned()));
        assert_eq!(Prompts::new("", "Guide.", "", "").step(), "Guide.");
    }

    #[test]
    fn texts_are_in_no_log() {
        let prompts = Prompts::new("canary", "canary", "canary", "canary");
        assert!(!format!("{prompts:?}").contains("canary"));
    }
}
