//! Rules that hold for every `.proto` file.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use cairn_engine::hooks::{Point, VerdictKind};
use cairn_engine::refusal::{Refusal, RefusalKind};
use prost_reflect::{DescriptorPool, EnumDescriptor, FileDescriptor};
use std::collections::BTreeSet;

/// Words that say nothing by themselves.
const EMPTY_WORDS: [&str; 3] = ["a", "an", "the"];
/// Codes of errors, as comments name them.
const CODES: [&str; 10] = [
    "ABORTED",
    "ALREADY_EXISTS",
    "DATA_LOSS",
    "FAILED_PRECONDITION",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
];

fn pool() -> DescriptorPool {
    DescriptorPool::decode(cairn_proto::DESCRIPTORS).unwrap()
}

/// The files of this repository, not those that they import from elsewhere.
fn files() -> Vec<FileDescriptor> {
    let pool = pool();
    let files: Vec<_> = pool
        .files()
        .filter(|file| file.name().starts_with("cairn/"))
        .collect();
    assert!(
        files.len() >= 10,
        "only {} contracts were found",
        files.len()
    );
    files
}

/// Something that needs a comment.
struct Item {
    file: FileDescriptor,
    full_name: String,
    name: String,
    path: Vec<i32>,
}

impl Item {
    fn new(file: FileDescriptor, full_name: &str, name: &str, path: &[i32]) -> Self {
        Self {
            file,
            full_name: full_name.to_owned(),
            name: name.to_owned(),
            path: path.to_vec(),
        }
    }

    fn comment(&self) -> String {
        let source = self.file.file_descriptor_proto().source_code_info.as_ref();
        let locations = source.map(|source| &*source.location).unwrap_or_default();
        let location = locations.iter().find(|location| location.path == self.path);
        location
            .map(|location| location.leading_comments().to_owned())
            .unwrap_or_default()
    }

    fn problem(&self) -> Option<String> {
        let comment = self.comment();
        if comment.trim().is_empty() {
            return Some(format!("{} has no comment", self.full_name));
        }
        repeats(&comment, &self.name).then(|| {
            let comment = comment.trim();
            format!("{}: \"{comment}\" says what the name says", self.full_name)
        })
    }
}

macro_rules! item {
    ($descriptor:expr) => {
        Item::new(
            $descriptor.parent_file(),
            $descriptor.full_name(),
            $descriptor.name(),
            $descriptor.path(),
        )
    };
}

fn items(pool: &DescriptorPool) -> Vec<Item> {
    let mut items = Vec::new();
    for message in pool
        .all_messages()
        .filter(|message| !message.is_map_entry())
    {
        items.push(item!(message));
        items.extend(message.fields().map(|field| item!(field)));
        let choices = message.oneofs().filter(|choice| !choice.is_synthetic());
        items.extend(choices.map(|choice| item!(choice)));
    }
    for values in pool.all_enums() {
        items.push(item!(values));
        items.extend(values.values().map(|value| item!(value)));
    }
    for service in pool.services() {
        items.push(item!(service));
        items.extend(service.methods().map(|method| item!(method)));
    }
    items.retain(|item| item.file.name().starts_with("cairn/"));
    items
}

/// Lower-case words of a text or a name; `maxTurns`, `max_turns` and `MAX_TURNS` have two.
fn words(text: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    let mut after_lower = false;
    for letter in text.chars() {
        if letter.is_uppercase() && after_lower {
            spaced.push(' ');
        }
        after_lower = letter.is_lowercase() || letter.is_numeric();
        spaced.extend(letter.to_lowercase());
    }
    spaced
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty() && !EMPTY_WORDS.contains(word))
        .map(|word| word.strip_suffix('s').unwrap_or(word).to_owned())
        .collect()
}

fn repeats(comment: &str, name: &str) -> bool {
    words(comment).is_subset(&words(name))
}

#[test]
fn everything_has_a_comment_that_says_more_than_its_name() {
    let items = items(&pool());
    assert!(items.len() > 300, "only {} items were found", items.len());
    let problems: Vec<String> = items.iter().filter_map(Item::problem).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_comment_that_repeats_the_name_is_found() {
    assert!(repeats(" Max tool turns.\n", "max_tool_turns"));
    assert!(repeats("A list of tools", "ListOfTools"));
    assert!(repeats("The tool call.", "TOOL_CALLS"));
    assert!(!repeats(
        "Most tool turns in one attempt.",
        "max_tool_turns"
    ));
}

#[test]
fn the_services_of_the_contract_are_among_the_items() {
    let pool = pool();
    let names: BTreeSet<String> = items(&pool)
        .into_iter()
        .map(|item| item.full_name)
        .collect();
    for name in [
        "cairn.event.v1.Event",
        "cairn.event.v1.Event.kind",
        "cairn.event.v1.Event.session_created",
        "cairn.event.v1.Settlement.Done.output",
        "cairn.event.v1.EFFECT_PURE",
        "cairn.api.v1.HookService",
        "cairn.api.v1.KnowledgeService.SearchPages",
        "cairn.hook.v1.HookHostService.Ask",
        "cairn.memory.v1.JournalService",
        "cairn.memory.v1.JournalService.Commit",
    ] {
        assert!(names.contains(name), "{name}");
    }
}

/// The codes with the reasons that comments of the public API name after them.
fn promises() -> BTreeSet<(String, String)> {
    let mut promises = BTreeSet::new();
    let mut items = items(&pool());
    items.retain(|item| item.full_name.starts_with("cairn.orchestrator."));
    for item in items {
        let comment = item.comment();
        let mut code = "";
        for word in comment.split(|letter: char| !letter.is_ascii_uppercase() && letter != '_') {
            match CODES.contains(&word) {
                true => code = word,
                false => _ = promises.insert((code.to_owned(), word.to_owned())),
            }
        }
    }
    promises
}

/// A request that is wrong in itself is refused before it becomes a command, and its error names the field.
#[test]
fn every_refusal_of_a_command_is_promised_with_its_code() {
    let promises = promises();
    for refusal in Refusal::ALL {
        let kind = refusal.kind();
        if matches!(kind, RefusalKind::InvalidArgument | RefusalKind::Internal) {
            continue;
        }
        let promise = (
            screaming_snake(&format!("{kind:?}")),
            refusal.name().to_owned(),
        );
        assert!(promises.contains(&promise), "{promise:?} is not promised");
    }
}

/// The comment of a point names the answers that it takes besides Proceed.
#[test]
fn each_point_of_hooks_is_the_one_of_its_number_and_promises_what_it_takes() {
    let pool = pool();
    let points = pool.get_enum_by_name("cairn.event.v1.HookPoint").unwrap();
    let items = items(&pool);
    assert_eq!(points.values().len(), Point::ALL.len() + 1);
    for &point in Point::ALL {
        let value = points.get_value(point as i32).unwrap();
        let name = format!("HOOK_POINT_{}", screaming_snake(point.name()));
        assert_eq!(value.name(), name);
        let item = items.iter().find(|item| item.name == name);
        let comment = item.unwrap().comment();
        let words: BTreeSet<_> = comment
            .split(|letter: char| !letter.is_alphabetic())
            .collect();
        for kind in [
            VerdictKind::Mutate,
            VerdictKind::Skip,
            VerdictKind::RequireApproval,
            VerdictKind::Block,
        ] {
            let is_promised = words.contains(&*format!("{kind:?}"));
            assert_eq!(is_promised, point.takes(kind), "{name}: {kind:?}");
        }
    }
}

#[test]
fn packages_are_versioned_and_lie_in_folders_of_their_name() {
    for file in files() {
        let package = file.package_name();
        assert!(
            package.ends_with(".v1"),
            "{}: package {package}",
            file.name()
        );
        let folder = format!("{}/", package.replace('.', "/"));
        assert!(
            file.name().starts_with(&folder),
            "{}: package {package}",
            file.name()
        );
        assert_eq!(
            file.syntax(),
            prost_reflect::Syntax::Proto3,
            "{}",
            file.name()
        );
    }
}

#[test]
fn enums_begin_with_unspecified() {
    let of_cairn = |values: &EnumDescriptor| values.full_name().starts_with("cairn.");
    for values in pool().all_enums().filter(of_cairn) {
        let prefix = screaming_snake(values.name());
        let zero = values.get_value(0).map(|value| value.name().to_owned());
        assert_eq!(
            zero,
            Some(format!("{prefix}_UNSPECIFIED")),
            "{}",
            values.full_name()
        );
        for value in values.values() {
            let is_prefixed = value.name().starts_with(&format!("{prefix}_"));
            assert!(
                is_prefixed,
                "{} lacks the prefix {prefix}_",
                value.full_name()
            );
        }
    }
}

fn screaming_snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_uppercase());
    }
    snake
}
