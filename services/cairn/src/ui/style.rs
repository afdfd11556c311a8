//! Colours, where they are wanted.

/// Text with colours, or without any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    color: bool,
}

impl Style {
    /// With colours or not.
    pub fn new(color: bool) -> Self {
        Self { color }
    }

    /// What was reached.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// What went wrong.
    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// What asks for somebody.
    pub fn asks(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// What is going on.
    pub fn active(self, text: &str) -> String {
        self.paint("36", text)
    }

    /// What is beside the point.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// What to look at first.
    pub fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}
