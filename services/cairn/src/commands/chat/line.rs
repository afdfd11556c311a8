//! What a line belongs to that a person types: what stood when they began it. Pure.

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message, or a command of the conversation.
    Message,
    /// An answer to the question with this id.
    Answer(String),
}

/// The line that a person types. A question that comes takes the next line that is begun, and none that is there.
#[derive(Debug)]
pub(super) struct Line {
    /// What a line is that is begun now.
    now: Kind,
    /// What the line was when it was begun; none while it is empty.
    begun: Option<Kind>,
}

impl Line {
    /// An empty line.
    pub(super) fn new(now: Kind) -> Self {
        Self { now, begun: None }
    }

    /// The person typed, and the line is this text now.
    pub(super) fn shows(&mut self, text: &str) {
        if text.is_empty() {
            self.begun = None;
        } else if self.begun.is_none() {
            self.begun = Some(self.now.clone());
        }
    }

    /// What is asked has changed. False if a line is there, which stays what it was.
    pub(super) fn becomes(&mut self, kind: Kind) -> bool {
        self.now = kind;
        self.begun.is_none()
    }

    /// What a line is that is begun now.
    pub(super) fn now(&self) -> &Kind {
        &self.now
    }

    /// What the line is.
    pub(super) fn kind(&self) -> &Kind {
        self.begun.as_ref().unwrap_or(&self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(question: &str) -> Kind {
        Kind::Answer(question.to_owned())
    }

    #[test]
    fn a_question_that_follows_one_with_an_answer_takes_the_next_line() {
        let mut line = Line::new(answer("one"));
        line.shows("");
        assert!(line.becomes(Kind::Message));
        assert_eq!(line.kind(), &Kind::Message);
        assert!(line.becomes(answer("two")));
        line.shows("n");
        assert_eq!(line.kind(), &answer("two"));
    }

    #[test]
    fn a_begun_line_stays_what_it_was_until_it_is_empty() {
        for begun in [Kind::Message, answer("one")] {
            let mut line = Line::new(begun.clone());
            line.shows("y");
            assert!(!line.becomes(answer("two")));
            line.shows("ye");
            assert_eq!(line.kind(), &begun);
            assert_eq!(line.now(), &answer("two"));
            line.shows("");
            line.shows("n");
            assert_eq!(line.kind(), &answer("two"));
        }
    }
}
