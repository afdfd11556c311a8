use super::*;
use crate::cli::Global;
use crate::settings::load;
use cairn_boot::Environment;
use cairn_model::prompt::{CODE_GENERATION, PLANNING, PromptSource};
use std::fs;
use tempfile::TempDir;

/// A settings file that the operator names, with files beside it.
fn folder(settings: &str, files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("cairn.toml", settings)].iter().chain(files) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn settings(folder: &TempDir, variables: &[(&str, &str)]) -> Result<PromptSettings, String> {
    let global = Global {
        config: Some(folder.path().join("cairn.toml")),
        ..Global::default()
    };
    let environment = Environment::of(variables.iter().copied());
    let place = format!("{}/", folder.path().display());
    match load(&global, &environment, &[]) {
        Ok(loaded) => Ok(loaded.config.prompts),
        Err(error) => {
            assert_eq!(error.code, crate::error::USAGE);
            Err(error.message.replace(&place, ""))
        }
    }
}

fn names(settings: &PromptSettings) -> Vec<&str> {
    let prompts = settings.all.all();
    let own = prompts.filter(|prompt| prompt.source() == PromptSource::Settings);
    own.map(|prompt| prompt.template().name()).collect()
}

#[test]
fn a_file_takes_the_place_of_a_built_in_prompt() {
    let settings_file = "[prompts.variables]\nteam = 'Blue'\n";
    let folder = folder(
        settings_file,
        &[
            ("prompts/planning.md", "\u{feff}Plan for {team}.\n"),
            ("prompts/greeting.md", "Hello {name}.\n"),
            ("prompts/notes.txt", "{% if %}"),
            ("prompts/.hidden.md", "{% if %}"),
            ("prompts/old/guide.md", "{% if %}"),
        ],
    );
    let read = settings(&folder, &[]).unwrap();
    assert_eq!(names(&read), ["greeting", "planning"]);
    assert_eq!(read.all.planning(), "Plan for Blue.\n");
    assert_eq!(read.all.code_generation(), CODE_GENERATION);
    assert!(read.problems.is_empty() && read.private.is_none());
    let variables = [("CAIRN_PROMPTS__VARIABLES__TEAM", "Red")];
    let read = settings(&folder, &variables).unwrap();
    assert_eq!(read.all.planning(), "Plan for Red.\n");
}

#[test]
fn without_files_the_built_in_prompts_count() {
    let none = folder("", &[]);
    let read = settings(&none, &[]).unwrap();
    assert_eq!((read.all.planning(), names(&read).len()), (PLANNING, 0));
    // Anything but a folder of that name has no prompts.
    let file = folder("", &[("prompts", "a file")]);
    assert_eq!(settings(&file, &[]).unwrap().all.planning(), PLANNING);
}

#[test]
fn every_fault_of_a_prompt_that_is_used_names_the_file_and_the_line() {
    let folder = folder(
        "[prompts.variables]\nteam = 'Blue'\n",
        &[
            ("prompts/planning.md", "Plan.\n\nFor {squad}.\n"),
            ("prompts/summary.md", "In {count} words.\n"),
            ("prompts/guide.md", "{% if team %}\nGuide."),
            (
                "prompts/execution.md",
                "{% if team == 'Red' %}Work.{% endif %}",
            ),
        ],
    );
    let faults = settings(&folder, &[]).unwrap_err();
    let expected = [
        "the configuration has 4 faults",
        "  prompts/planning.md:3: the prompt \"planning\" needs the variable \"squad\" at line 3, which is not set \
         (allowed: team; prompts.variables can have more)",
        "  prompts/execution.md:1: the prompt \"execution\" cannot be rendered at line 1: it has no text",
        "  prompts/guide.md:2: the prompt \"guide\" is wrong at line 2: ",
        "  prompts/summary.md:1: the prompt \"summary\" needs the variable \"count\" at line 1, which is not set \
         (allowed: words, team; prompts.variables can have more)",
    ];
    let found: Vec<_> = faults.lines().collect();
    assert_eq!(found.len(), expected.len(), "{faults}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{faults}");
    }
}

#[test]
fn a_fault_of_another_prompt_is_a_line() {
    let long = "x".repeat(64 * 1024 + 1);
    let folder = folder(
        "",
        &[
            ("prompts/broken.md", "{% if %}"),
            ("prompts/long.md", &long),
            ("prompts/no name.md", "Text."),
            ("prompts/fine.md", "{anything}"),
        ],
    );
    let read = settings(&folder, &[]).unwrap();
    assert_eq!(names(&read), ["broken", "fine"]);
    let [broken, long, no_name] = read.problems.as_slice() else {
        panic!("{:?}", read.problems);
    };
    assert!(broken.contains("broken.md: the prompt \"broken\" is wrong at line 1"));
    assert!(long.ends_with("long.md: has 65537 bytes (allowed: at most 65536)"));
    assert!(no_name.contains("no name.md: is no name of a prompt (allowed: "));
}

#[test]
fn a_file_without_text_counts_as_absent_with_a_line() {
    let folder = folder(
        "",
        &[
            ("prompts/planning.md", ""),
            ("prompts/greeting.md", "\u{feff} \n"),
        ],
    );
    let read = settings(&folder, &[]).unwrap();
    assert_eq!((read.all.planning(), names(&read).len()), (PLANNING, 0));
    let [greeting, planning] = read.problems.as_slice() else {
        panic!("{:?}", read.problems);
    };
    assert!(greeting.ends_with("greeting.md: has no text, so it does not count"));
    assert!(planning.ends_with("planning.md: has no text, so it does not count"));
}

#[test]
fn a_file_in_the_place_of_a_built_in_prompt_must_be_readable() {
    let folder = folder("", &[("prompts/planning.md/x", "")]);
    let faults = settings(&folder, &[]).unwrap_err();
    let expected = "prompts/planning.md: cannot be read: it is not a file";
    assert!(faults.contains(expected), "{faults}");
}

#[test]
fn another_folder_has_to_be_there_and_is_kept_from_models() {
    let text = "[prompts]\nfolder = 'texts'\n";
    let none = folder(text, &[]);
    let fault = settings(&none, &[]).unwrap_err();
    assert_eq!(
        fault,
        "the configuration has a fault\n  cairn.toml:2: prompts.folder names 'texts', which is no folder \
         (allowed: a folder, from the folder of the settings file)"
    );
    let some = folder(text, &[("texts/planning.md", "Plan.")]);
    let read = settings(&some, &[]).unwrap();
    assert_eq!(read.all.planning(), "Plan.");
    assert_eq!(read.private, Some(some.path().join("texts")));
    let empty = settings(&some, &[("CAIRN_PROMPTS__FOLDER", "")]).unwrap_err();
    assert!(empty.contains("prompts.folder is empty"), "{empty}");
}

#[test]
fn variables_have_names_that_prompts_can_use_and_are_never_shown() {
    let wrong = folder("[prompts.variables]\n\"a-b\" = 'x'\n", &[]);
    let fault = settings(&wrong, &[]).unwrap_err();
    let expected = "cairn.toml:2: prompts.variables.a-b is no variable that a prompt can use (allowed: a name of";
    assert!(fault.contains(expected), "{fault}");

    let text = "[prompts.variables]\nkey = 'sk-canary'\n";
    let folder = folder(
        text,
        &[("prompts/planning.md", "{key}{% if key %}{other}{% endif %}")],
    );
    let fault = settings(&folder, &[]).unwrap_err();
    assert!(!fault.contains("canary"), "{fault}");
    fs::write(folder.path().join("prompts/planning.md"), "{key}").unwrap();
    let global = Global {
        config: Some(folder.path().join("cairn.toml")),
        ..Global::default()
    };
    let loaded = load(&global, &Environment::default(), &[]).unwrap();
    assert_eq!(loaded.config.prompts.all.planning(), "sk-canary");
    let shown = [loaded.show(), format!("{:?}", loaded.config)];
    let json = serde_json::to_string(&loaded.config).unwrap();
    assert!(!shown.iter().chain([&json]).any(|it| it.contains("canary")));
}
