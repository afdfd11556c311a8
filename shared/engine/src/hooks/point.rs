//! The points of a run as one table: what each takes, and what an answer changes.

use super::VerdictKind;
use serde::{Deserialize, Serialize};

/// What an answer may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Changes {
    /// Nothing.
    None,
    /// The arguments of a call.
    Arguments,
    /// The output of a call.
    Output,
    /// The text of a reply.
    Text,
    /// The messages of the turn or attempt.
    Ops,
    /// A plan.
    Plan,
    /// The prompt of a summary.
    Prompt,
}

/// Makes [`Point`] of rows `Name = number: changes [+ further kinds of answers]`. The number is that of the contract
/// (`cairn.event.v1.HookPoint`) and of the bit in [`Points`].
macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $number:literal: $changes:ident $(+ $extra:ident)*;)*) => {
        /// A point of a run at which hooks are asked, in the order of the contract.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        pub enum Point {
            $($(#[$doc])* $point = $number,)*
        }

        impl Point {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$point,)*];

            /// Its name in settings, contracts and traces.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => stringify!($point),)*
                }
            }

            /// What an answer may change.
            pub const fn changes(self) -> Changes {
                match self {
                    $(Self::$point => Changes::$changes,)*
                }
            }

            /// Whether it takes an answer of this kind. Every point takes Proceed.
            pub const fn takes(self, kind: VerdictKind) -> bool {
                match self {
                    $(Self::$point => takes!(kind, $changes $(, $extra)*),)*
                }
            }
        }
    };
}

/// One row of [`points!`].
macro_rules! takes {
    ($kind:expr, $changes:ident $(, $extra:ident)*) => {
        match $kind {
            VerdictKind::Proceed => true,
            VerdictKind::Mutate => !matches!(Changes::$changes, Changes::None),
            $(VerdictKind::$extra => true,)*
            #[allow(unreachable_patterns, reason = "a point may take all kinds")]
            _ => false,
        }
    };
}

points! {
    /// A run began, and does nothing yet.
    OnRunStart = 1: None + RequireApproval + Block;
    /// A run has ended, in whatever way.
    OnRunEnd = 2: None;
    /// A plan comes into force, or is shown to a person, next.
    OnPlanProposed = 3: Plan + RequireApproval + Block;
    /// A step of a plan begins next.
    OnStepStart = 4: None + Skip + RequireApproval + Block;
    /// A turn of a conversation, or an attempt at a step, begins next.
    OnTurnStart = 5: None + Block;
    /// A model is asked next.
    PreRequest = 6: Ops + Skip + Block;
    /// A model is asked again after an error.
    OnRetry = 7: None + Block;
    /// A model replied, and nothing follows from the reply yet.
    PostRequest = 8: Text + Block;
    /// A tool is called next.
    PreToolCall = 9: Arguments + Skip + RequireApproval + Block;
    /// A tool gave its result, and the model does not have it yet.
    PostToolCall = 10: Output + Block;
    /// Older messages give way next.
    OnCompaction = 11: Prompt + Skip + Block;
    /// A turn or an attempt failed, and its error is not returned yet.
    OnError = 12: None;
    /// A turn or an attempt completed.
    OnTurnEnd = 13: None + Block;
    /// A step of a plan ended, in whatever way.
    OnPlanStepComplete = 14: None + Block;
}

impl Point {
    /// What counts if a hook fails that says nothing of it.
    pub const fn blocks_on_error(self) -> bool {
        matches!(self, Self::PreRequest | Self::PreToolCall)
    }

    /// The whole attempt waits at it.
    pub const fn holds_attempt(self) -> bool {
        matches!(
            self,
            Self::OnTurnStart
                | Self::PreRequest
                | Self::OnRetry
                | Self::PostRequest
                | Self::OnCompaction
        )
    }

    /// A Proceed may be decided with the next report of the attempt; see `owner/hooks.rs`.
    pub const fn may_be_late(self) -> bool {
        matches!(self, Self::PreRequest | Self::OnRetry)
    }

    /// The answer changes nothing.
    pub const fn observes(self) -> bool {
        !self.takes(VerdictKind::Block)
    }
}

/// Points as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Points(u16);

impl Points {
    /// With one more.
    #[must_use]
    pub const fn with(self, point: Point) -> Self {
        Self(self.0 | (1 << point as u16))
    }

    /// Whether it is among them.
    pub const fn has(self, point: Point) -> bool {
        self.0 & (1 << point as u16) != 0
    }

    /// All in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Point> for Points {
    fn from_iter<T: IntoIterator<Item = Point>>(points: T) -> Self {
        points.into_iter().fold(Self::default(), Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the points, as the contract has it.
    #[test]
    fn each_point_takes_what_the_contract_says() {
        use VerdictKind::{Block, Mutate, Proceed, RequireApproval, Skip};
        for &point in Point::ALL {
            let more: &[VerdictKind] = match point {
                Point::OnRunStart => &[RequireApproval],
                Point::OnStepStart => &[Skip, RequireApproval],
                Point::OnPlanProposed => &[Mutate, RequireApproval],
                Point::PreRequest | Point::OnCompaction => &[Mutate, Skip],
                Point::PostRequest | Point::PostToolCall => &[Mutate],
                Point::PreToolCall => &[Mutate, Skip, RequireApproval],
                _ => &[],
            };
            let observes = matches!(point, Point::OnRunEnd | Point::OnError);
            assert_eq!(point.observes(), observes, "{point:?}");
            for kind in VerdictKind::ALL {
                let expected = match kind {
                    Proceed => true,
                    Block => !observes,
                    kind => more.contains(&kind),
                };
                assert_eq!(point.takes(kind), expected, "{point:?} {kind:?}");
            }
        }
    }
}
