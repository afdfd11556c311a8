//! Checks that can be taken out of transitions: debug builds only, for tests of the tests. A harness
//! that does not notice that one is missing proves nothing by being green.

/// What a store does not look at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sabotage {
    /// Anybody's transition is taken, whatever epoch, owner and version it comes with.
    pub fencing: bool,
    /// A transition that is sent again is made again.
    pub duplicates: bool,
}

/// The checks as they stand in the script for transitions, and what takes their places.
const FENCING: [(&str, &str); 2] = [
    ("if not owned then return {'fenced'} end", ""),
    (
        "if version ~= tonumber(ARGV[5]) or seen < tonumber(s[6]) or seen > last or handled > seen\n  \
         or through > seen then",
        "if seen > last then",
    ),
];
const DUPLICATES: [(&str, &str); 1] = [(
    "if version == tonumber(ARGV[5]) + 1 and s[8] == ARGV[6] then",
    "if version == tonumber(ARGV[5]) + 1 and s[8] == ARGV[6] then\n  \
     version, s[6] = version - 1, ARGV[7]\nend\nif false then",
)];

impl Sabotage {
    /// The script without the checks.
    ///
    /// # Panics
    /// If it does not have them: then nothing would be taken out.
    pub(crate) fn cut(self, script: &str) -> String {
        let fencing = FENCING.iter().filter(|_| self.fencing);
        let duplicates = DUPLICATES.iter().filter(|_| self.duplicates);
        fencing
            .chain(duplicates)
            .fold(script.to_owned(), |script, (check, instead)| {
                assert!(script.contains(check), "the script has no {check:?}");
                script.replace(check, instead)
            })
    }
}
