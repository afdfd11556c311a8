//! Whether a store keeps what it answers.

use std::fmt;

/// Whether what was answered survives the death of the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Durability {
    /// As far as the disks keep their word.
    Durable,
    /// Not, or not for sure.
    Degraded {
        /// What is in the way, each with what to do about it.
        reasons: Vec<String>,
    },
}

impl Durability {
    /// `durable` or `degraded`, for logs and health.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Degraded { .. } => "degraded",
        }
    }

    /// Tells the log what is other than was known.
    pub(crate) fn tell(&self, known: &Self) {
        let durability = self.name();
        match self {
            Self::Durable if known == self => {}
            Self::Durable => tracing::info!(durability, "the store keeps what it answers again"),
            Self::Degraded { .. } => {
                let news = self.reasons().iter();
                for reason in news.filter(|reason| !known.reasons().contains(reason)) {
                    tracing::warn!(durability, reason, "what was answered may be lost");
                }
            }
        }
    }

    fn reasons(&self) -> &[String] {
        match self {
            Self::Durable => &[],
            Self::Degraded { reasons } => reasons,
        }
    }

    /// With one reason more, if there is one.
    pub(super) fn and(self, reason: Option<String>) -> Self {
        let reasons = self.reasons().iter().cloned();
        Self::of(reasons.chain(reason).collect())
    }

    pub(super) fn of(reasons: Vec<String>) -> Self {
        match reasons.is_empty() {
            true => Self::Durable,
            false => Self::Degraded { reasons },
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Durable => f.write_str(self.name()),
            Self::Degraded { reasons } => write!(f, "{}: {}", self.name(), reasons.join("; ")),
        }
    }
}
