//! Names of agents and skills.

/// Most bytes of the name of an agent or a skill.
pub const MAX_NAME: usize = 64;
/// What a name may be, for people.
pub(crate) const ALLOWED: &str = "1 to 64 letters, digits, '.', '_' and '-', of which the first is a \
    letter or a digit";

/// Whether agents and skills may have the name: 1 to [`MAX_NAME`] letters and digits of ASCII, `.`, `_` and
/// `-`, of which the first is a letter or a digit.
pub fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=MAX_NAME).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_part)
}

/// Whether the specification of Agent Skills allows the name.
pub(crate) fn is_skill_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    is_name(name) && name.chars().all(is_part) && !name.ends_with('-') && !name.contains("--")
}

/// The name that a path gives an agent: the file's, without the endings of agent files.
pub(crate) fn of_file(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let endings = [".agent.md", ".chatmode.md", ".md", ".markdown"];
    let stems = endings.iter().filter_map(|ending| {
        let (stem, end) = name.split_at_checked(name.len().checked_sub(ending.len())?)?;
        end.eq_ignore_ascii_case(ending).then_some(stem)
    });
    stems.min_by_key(|stem| stem.len()).unwrap_or(name)
}

/// The name that a path gives a skill: that of the file's folder.
pub(crate) fn of_folder(path: &str) -> Option<&str> {
    path.rsplit(['/', '\\']).nth(1)
}

/// A name as it is compared: `max-turns`, `maxTurns` and `max_turns` are one.
pub(crate) fn key_of(name: &str) -> String {
    let kept = name.chars().filter(|c| !matches!(c, '-' | '_'));
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

/// The one of `known` that `name` was most likely meant to be, if any is near.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // A name far longer than any known one is near nothing, and costly to compare.
    if name.len() > MAX_NAME {
        return None;
    }
    let key = key_of(name);
    let near = known.iter().filter_map(|other| {
        let other_key = key_of(other);
        let difference = other_key.len().abs_diff(key.len());
        let most = (other_key.len() / 3).max(1);
        // Comparing is costly: a file may have thousands of names.
        let distance = (difference <= most).then(|| strsim::osa_distance(&key, &other_key))?;
        (distance <= most).then_some((distance, difference, *other))
    });
    let nearest = near.min_by_key(|(distance, difference, _)| (*distance, *difference));
    nearest.map(|(_, _, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_gives_a_name() {
        for (path, name) in [
            (".claude/agents/code-reviewer.md", "code-reviewer"),
            (".github/agents/4.1-Beast.agent.md", "4.1-Beast"),
            (".github/agents/Debug.Agent.MD", "Debug"),
            ("C:\\agents\\plan.md", "plan"),
            ("plan", "plan"),
            (".md", ""),
            ("é.md", "é"),
            ("", ""),
        ] {
            assert_eq!(of_file(path), name, "{path}");
        }
        assert_eq!(of_folder("skills/pdf/SKILL.md"), Some("pdf"));
        assert_eq!(of_folder("SKILL.md"), None);
    }

    #[test]
    fn names_have_few_characters() {
        for name in ["a", "4.1-Beast", "code_reviewer", &"a".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "-a",
            ".a",
            "a b",
            "a/b",
            "a:b",
            "é",
            "a\n",
            &"a".repeat(65),
        ] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_skill_name("pdf-tools2"));
        for name in ["Pdf", "pdf_tools", "pdf-", "a--b", "a.b"] {
            assert!(!is_skill_name(name), "{name}");
        }
    }

    #[test]
    fn a_misspelled_name_is_near_the_right_one_and_a_foreign_one_near_none() {
        let known = ["temperature", "tools", "max-turns", "mode", "model", "name"];
        for (name, near) in [
            ("temprature", Some("temperature")),
            ("tols", Some("tools")),
            ("maxTurn", Some("max-turns")),
            ("Modle", Some("model")),
            ("user", None),
            ("assistant", None),
            ("Context", None),
        ] {
            assert_eq!(nearest(name, &known), near, "{name}");
        }
        assert_eq!(nearest(&"tools".repeat(100), &known), None);
    }
}
