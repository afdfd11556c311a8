//! What an attempt needs of the resources that carry it out.

use std::collections::BTreeMap;
use std::fmt;

/// Most bytes of the name of a capability.
pub const MAX_NAME: usize = 64;

/// A capability that is needed, as a plan writes it: `web_search`, or `web_search>=5`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Needed {
    /// Its name.
    pub capability: String,
    /// The lowest level that is enough; 0 for any.
    pub level: u32,
}

/// The text names no capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeedError;

impl Needed {
    /// Reads a need.
    ///
    /// # Errors
    /// The name is not 1 to 64 lower-case letters, digits, `_`, `-`, `.` and `:`, or the level is no number.
    pub fn parse(text: &str) -> Result<Self, NeedError> {
        let (name, level) = match text.split_once(">=") {
            None => (text, 0),
            Some((name, level)) => (
                name.trim_end(),
                level.trim_start().parse().map_err(|_| NeedError)?,
            ),
        };
        match is_capability(name) {
            true => Ok(Self {
                capability: name.to_owned(),
                level,
            }),
            false => Err(NeedError),
        }
    }
}

/// The text can name a capability.
pub fn is_capability(name: &str) -> bool {
    let is_of_name =
        |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b':');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_of_name)
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            0 => f.write_str(&self.capability),
            level => write!(f, "{}>={level}", self.capability),
        }
    }
}

/// All that an attempt needs. The empty need is met by every executor.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need {
    /// Capabilities, each with its lowest level; 0 for any.
    pub capabilities: BTreeMap<String, u32>,
    /// The tool that its executor has to be able to use: of a step of one call.
    pub tool: Option<String>,
}

impl Need {
    /// Of these capabilities. A text that names none is passed over; of two levels the higher one counts.
    pub fn of<'a>(capabilities: impl IntoIterator<Item = &'a str>) -> Self {
        let mut need = Self::default();
        for needed in capabilities
            .into_iter()
            .filter_map(|it| Needed::parse(it).ok())
        {
            let level = need.capabilities.entry(needed.capability).or_default();
            *level = needed.level.max(*level);
        }
        need
    }

    /// Its capabilities as a plan writes them, separated by commas; for `Header.waits_for`.
    pub fn text(&self) -> String {
        let needed = self.capabilities.iter().map(|(capability, &level)| Needed {
            capability: capability.clone(),
            level,
        });
        let needed: Vec<_> = needed.map(|it| it.to_string()).collect();
        needed.join(",")
    }
}

/// A capability that is not to be had now.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Missing {
    /// Its name; empty if it is a tool that no executor may use.
    pub capability: String,
    /// The lowest level that is needed; 0 for any.
    pub level: u32,
    /// Resources that have it and are available.
    pub available: u32,
    /// All resources that have it.
    pub total: u32,
    /// The tools that give it to an executor; empty if only a resource that declares it has it.
    pub tools: Vec<String>,
}
