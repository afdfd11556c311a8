//! Compactions: what they replace, what stands for it, and what an executor reports for them.

use super::error::{ConvertError, required};
use super::wire::{OnWire, known, plain_record};
use crate::event as proto;
use crate::executor as wire;
use cairn_engine::conversation::{CompactedMessages, CompactionKind};
use cairn_engine::decide::{FullRequest, Summarised};
use cairn_engine::failure::Failure;
use cairn_engine::session::{FullCause, SummaryTask};

plain_record! {
    CompactedMessages => proto::CompactedMessages { behind_mark, after, through, with_compressed }
}

impl From<CompactionKind> for proto::CompactionKind {
    fn from(kind: CompactionKind) -> Self {
        match kind {
            CompactionKind::History => Self::History,
            CompactionKind::Summary => Self::Summary,
        }
    }
}

/// None is a message as it was said.
impl From<Option<CompactionKind>> for proto::CompactionKind {
    fn from(kind: Option<CompactionKind>) -> Self {
        kind.map_or(Self::Unspecified, Self::from)
    }
}

impl OnWire<i32> for Option<CompactionKind> {
    fn to_wire(self) -> i32 {
        proto::CompactionKind::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Ok(match known(wire, field)? {
            proto::CompactionKind::Unspecified => None,
            proto::CompactionKind::History => Some(CompactionKind::History),
            proto::CompactionKind::Summary => Some(CompactionKind::Summary),
        })
    }
}

/// Where a compaction has happened.
impl OnWire<i32> for CompactionKind {
    fn to_wire(self) -> i32 {
        proto::CompactionKind::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        let kind = Option::<Self>::from_wire(wire, field)?;
        kind.ok_or_else(|| ConvertError::missing(field))
    }
}

impl From<FullCause> for proto::FullCause {
    fn from(cause: FullCause) -> Self {
        match cause {
            FullCause::NothingToCompact => Self::NothingToCompact,
            FullCause::DoesNotShrink => Self::DoesNotShrink,
            FullCause::NoSummary => Self::NoSummary,
        }
    }
}

impl OnWire<i32> for FullCause {
    fn to_wire(self) -> i32 {
        proto::FullCause::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Ok(match known(wire, field)? {
            proto::FullCause::NothingToCompact => Self::NothingToCompact,
            proto::FullCause::DoesNotShrink => Self::DoesNotShrink,
            proto::FullCause::NoSummary => Self::NoSummary,
            proto::FullCause::Unspecified => return Err(ConvertError::missing(field)),
        })
    }
}

/// What an executor need not know stays with the owner.
impl From<SummaryTask> for wire::SummaryTask {
    fn from(task: SummaryTask) -> Self {
        Self {
            messages: task.messages.to_wire(),
            prompt: task.prompt,
            max_output_tokens: task.max_output_tokens,
        }
    }
}

impl From<FullRequest> for wire::FullRequest {
    fn from(full: FullRequest) -> Self {
        Self {
            tokens: full.tokens,
            estimated_tokens: full.estimated_tokens,
            window_tokens: full.window,
            max_output_tokens: full.max_output_tokens,
            is_refused: full.is_refused,
        }
    }
}

/// A request without tokens is not too long.
impl TryFrom<wire::FullRequest> for FullRequest {
    type Error = ConvertError;

    fn try_from(full: wire::FullRequest) -> Result<Self, ConvertError> {
        if full.tokens == 0 {
            return Err(ConvertError::missing("tokens"));
        }
        Ok(Self {
            tokens: full.tokens,
            estimated_tokens: full.estimated_tokens,
            window: full.window_tokens,
            max_output_tokens: full.max_output_tokens,
            is_refused: full.is_refused,
        })
    }
}

/// Reads what became of a summary. `failure` is that of the report with it: why the model wrote none.
///
/// # Errors
/// The usage is missing.
pub fn summarised(
    report: wire::SummaryReport,
    failure: Option<proto::Failure>,
) -> Result<Summarised, ConvertError> {
    Ok(Summarised {
        outcome: match failure {
            None => Ok(report.text),
            Some(failure) => Err(Failure::from(failure)),
        },
        usage: required("usage", report.usage)?,
        provider: report.provider,
        model: report.model,
        duration_ms: report.duration_ms,
    })
}
