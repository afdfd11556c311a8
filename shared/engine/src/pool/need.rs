//! What an attempt needs of the resources that carry it out.

use std::collections::BTreeMap;
use std::fmt;

/// Most bytes of the name of a capability.
pub const MAX_NAME: usize = 64;
/// Highest level at which a resource can have a capability. The lowest one is 1.
pub const MAX_LEVEL: u32 = 1_000_000;
/// Most capabilities that a step can name.
pub const MAX_NEEDED: usize = 16;
/// Stands before a tool in the text of a need. No name of a capability has it.
const TOOL: &str = "@";

/// A capability that is needed, as a plan writes it: `web_search`, or `web_search>=5`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Needed {
    /// Its name.
    pub capability: String,
    /// The lowest level that is enough; 0 for any.
    pub level: u32,
}

/// Why a text is no need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedError {
    /// It names no capability.
    Name,
    /// Its level is not from 1 to [`MAX_LEVEL`].
    Level,
}

impl Needed {
    /// Reads a need.
    ///
    /// # Errors
    /// The name is not 1 to 64 lower-case letters, digits, `_`, `-`, `.` and `:`, or the level is no number from 1 to
    /// [`MAX_LEVEL`].
    pub fn parse(text: &str) -> Result<Self, NeedError> {
        let (name, level) = match text.split_once(">=") {
            None => (text, None),
            Some((name, level)) => (name.trim_end(), Some(level.trim_start())),
        };
        if !is_capability(name) {
            return Err(NeedError::Name);
        }
        Ok(Self {
            capability: name.to_owned(),
            level: level.map_or(Ok(0), read_level)?,
        })
    }
}

/// A sign is no digit of a level, although Rust reads one.
fn read_level(text: &str) -> Result<u32, NeedError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NeedError::Name);
    }
    let level = text.parse::<u32>().ok();
    let level = level.filter(|level| (1..=MAX_LEVEL).contains(level));
    level.ok_or(NeedError::Level)
}

/// The text can name a capability.
pub fn is_capability(name: &str) -> bool {
    let is_of_name =
        |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b':');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_of_name)
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_needed(f, &self.capability, self.level)
    }
}

fn write_needed(f: &mut fmt::Formatter<'_>, capability: &str, level: u32) -> fmt::Result {
    match level {
        0 => f.write_str(capability),
        level => write!(f, "{capability}>={level}"),
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

    /// Reads what [`Need::text`] writes.
    pub fn read(text: &str) -> Self {
        let mut parts = text.split(',');
        let need = Self::of(parts.clone());
        let tool = parts.find_map(|part| part.strip_prefix(TOOL));
        Self {
            tool: tool.map(str::to_owned),
            ..need
        }
    }

    /// Its tool with an `@` before it, and its capabilities as a plan writes them, separated by commas; for
    /// `Header.waits_for`.
    pub fn text(&self) -> String {
        let tool = self.tool.iter();
        let tool = tool.map(|tool| format!("{TOOL}{}", listable(tool)));
        let needed = self.capabilities.iter().map(|(capability, &level)| {
            let capability = capability.clone();
            Needed { capability, level }.to_string()
        });
        let parts: Vec<String> = tool.chain(needed).collect();
        parts.join(",")
    }
}

/// The name of a tool, if a tool can have it. A plan may name any text, and the store takes printable ASCII only.
fn listable(tool: &str) -> &str {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match tool.len() <= MAX_NAME && tool.bytes().all(is_of_name) {
        true => tool,
        false => "",
    }
}

/// A capability that is not available now.
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

/// As a plan names it: `web_search>=5`. A tool that no executor may use: `tool shell_exec`.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.capability.as_str() {
            "" => write!(f, "tool {}", self.tools.join(", ")),
            capability => write_needed(f, capability, self.level),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(capability: &str, level: u32) -> Needed {
        Needed {
            capability: capability.to_owned(),
            level,
        }
    }

    #[test]
    fn a_need_is_a_name_and_perhaps_a_lowest_level() {
        for (text, capability, level, shown) in [
            ("web_search", "web_search", 0, "web_search"),
            ("web_search>=5", "web_search", 5, "web_search>=5"),
            ("web_search >= 5", "web_search", 5, "web_search>=5"),
            ("region:eu-1.a", "region:eu-1.a", 0, "region:eu-1.a"),
            ("a>=1", "a", 1, "a>=1"),
            ("a>=1000000", "a", MAX_LEVEL, "a>=1000000"),
        ] {
            let read = Needed::parse(text).expect(text);
            assert_eq!(read, needed(capability, level), "{text}");
            assert_eq!(read.to_string(), shown);
        }
        let longest = "x".repeat(MAX_NAME);
        assert_eq!(Needed::parse(&longest), Ok(needed(&longest, 0)));
    }

    #[test]
    fn a_text_that_is_no_need_is_refused() {
        let too_long = "x".repeat(MAX_NAME + 1);
        for text in [
            "",
            " ",
            "Web_search",
            "web search",
            " web_search",
            "web_search ",
            "a,b",
            "größe",
            "a>5",
            ">=5",
            "a>=",
            "a>=x",
            "a>=-1",
            "a>=+1",
            "a>=1.5",
            "a>=1>=2",
            too_long.as_str(),
        ] {
            assert_eq!(Needed::parse(text), Err(NeedError::Name), "{text:?}");
        }
        for text in ["gpu>=0", "gpu>=00", "gpu>=1000001", "gpu >= 4294967296"] {
            assert_eq!(Needed::parse(text), Err(NeedError::Level), "{text:?}");
        }
    }

    #[test]
    fn of_two_levels_the_higher_one_is_needed() {
        let need = Need::of(["b", "a>=2", "no name", "a", "a>=7", "a>=3"]);
        let expected = [("a".to_owned(), 7), ("b".to_owned(), 0)];
        assert_eq!(need.capabilities, BTreeMap::from(expected));
        assert_eq!(need.tool, None);
        assert_eq!(need.text(), "a>=7,b");
    }

    #[test]
    fn a_written_need_is_read_as_the_same() {
        let cases: [&[&str]; 3] = [&[], &["gpu"], &["web_search>=5", "gpu"]];
        for texts in cases {
            let need = Need::of(texts.iter().copied());
            assert_eq!(Need::read(&need.text()), need);
            let of_tool = Need {
                tool: Some("shell_exec".to_owned()),
                ..need
            };
            assert_eq!(Need::read(&of_tool.text()), of_tool);
        }
        let tool = Some("shell_exec".to_owned());
        let alone = Need {
            tool,
            ..Need::default()
        };
        assert_eq!(alone.text(), "@shell_exec");
        let no_name = Need {
            tool: Some("größe, or not".to_owned()),
            ..Need::default()
        };
        assert_eq!(no_name.text(), "@");
    }

    #[test]
    fn what_is_missing_is_named_as_a_plan_names_it() {
        let missing = |level| Missing {
            capability: "web_search".to_owned(),
            level,
            tools: vec!["web_search".to_owned()],
            ..Missing::default()
        };
        assert_eq!(missing(0).to_string(), "web_search");
        assert_eq!(missing(5).to_string(), "web_search>=5");
        let tool = Missing {
            tools: vec!["shell_exec".to_owned()],
            ..Missing::default()
        };
        assert_eq!(tool.to_string(), "tool shell_exec");
    }
}
