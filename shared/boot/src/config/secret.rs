//! A setting that is never shown.

use secrecy::{ExposeSecret, SecretString};
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;

/// By this name the reader knows a secret, and keeps its value out of faults.
pub(super) const MARK: &str = "cairn::Secret";
const MASK: &str = "********";

/// A password, a token or a key. Printing it in any way shows a mask; the memory is wiped when it
/// is dropped.
#[derive(Clone, Default)]
pub struct Secret(SecretString);

impl Secret {
    /// The value itself, for the one place that hands it to whom it is meant for.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether there is one: an empty secret counts as none.
    pub fn is_set(&self) -> bool {
        !self.expose().is_empty()
    }

    fn mask(&self) -> &'static str {
        if self.is_set() { MASK } else { "" }
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value.into())
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.mask())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.mask())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Wrapped;
        impl<'de> Visitor<'de> for Wrapped {
            type Value = Secret;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<Secret, D::Error> {
                String::deserialize(deserializer).map(Secret::from)
            }
        }
        deserializer.deserialize_newtype_struct(MARK, Wrapped)
    }
}
