//! What is wrong with a message, and where.

use std::convert::Infallible;

/// A message that the engine cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConvertError {
    /// Path of the field from the message that was converted, such as `plan.steps[2].tool`.
    pub field: String,
    /// What is wrong with it, and what is allowed. Holds nothing of the field's content but
    /// numbers.
    pub problem: String,
    /// It has a value that this version does not know, and a newer one may.
    pub is_newer: bool,
}

impl ConvertError {
    /// The field `field` is wrong in the way that `problem` says.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
            is_newer: false,
        }
    }

    /// The field `field` has what this version does not know, as `problem` says.
    pub fn unknown(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            is_newer: true,
            ..Self::new(field, problem)
        }
    }

    /// None of the choices of `field` is set that this version knows.
    pub fn no_choice(field: impl Into<String>) -> Self {
        Self::unknown(field, "is missing or newer than this version")
    }

    /// The field `field` has to be set and is not.
    pub fn missing(field: impl Into<String>) -> Self {
        Self::new(field, "is missing")
    }

    /// The same error seen from the message that holds the other one in its field `parent`.
    #[must_use]
    pub fn within(self, parent: &str) -> Self {
        Self {
            field: format!("{parent}.{}", self.field),
            ..self
        }
    }
}

/// Lets infallible conversions stand where fallible ones are asked for.
impl From<Infallible> for ConvertError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Converts the message in the field `field`, which has to be set.
///
/// # Errors
/// The field is missing, or the first error within it.
pub fn required<E, W>(field: &str, message: Option<W>) -> Result<E, ConvertError>
where
    E: TryFrom<W>,
    ConvertError: From<E::Error>,
{
    let message = message.ok_or_else(|| ConvertError::missing(field))?;
    E::try_from(message).map_err(|error| ConvertError::from(error).within(field))
}

/// Converts all messages of the field `field`.
///
/// # Errors
/// The first error within one of them.
pub fn repeated<E, W>(field: &str, messages: Vec<W>) -> Result<Vec<E>, ConvertError>
where
    E: TryFrom<W>,
    ConvertError: From<E::Error>,
{
    let convert = |(position, message)| {
        E::try_from(message)
            .map_err(|error| ConvertError::from(error).within(&format!("{field}[{position}]")))
    };
    messages.into_iter().enumerate().map(convert).collect()
}
