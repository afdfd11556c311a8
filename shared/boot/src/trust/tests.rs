use super::*;
use tempfile::TempDir;

fn trust(folder: &TempDir) -> Trust {
    Trust::at(folder.path().join("state/cairn/trust.json"))
}

fn pin(part: &str) -> Pins {
    let parts = BTreeMap::from([("description".to_owned(), part.to_owned())]);
    BTreeMap::from([("files__read".to_owned(), parts)])
}

#[test]
fn nothing_is_confirmed_before_it_is() {
    let folder = TempDir::new().unwrap();
    let trust = trust(&folder);
    let file = folder.path().join("cairn.toml");
    fs::write(&file, "").unwrap();
    assert!(!trust.is_confirmed(&file, "d1").unwrap());
    assert_eq!(trust.pins("s1").unwrap(), None);
    trust.confirm(&file, "d1").unwrap();
    assert!(trust.is_confirmed(&file, "d1").unwrap());
    assert!(!trust.is_confirmed(&file, "d2").unwrap());
    assert!(!trust.is_server_allowed(&file, "files", "d1").unwrap());
    trust.allow_server(&file, "files", "d1").unwrap();
    assert!(trust.is_server_allowed(&file, "files", "d1").unwrap());
    assert!(!trust.is_server_allowed(&file, "other", "d1").unwrap());
    let other = folder.path().join("other.json");
    assert!(!trust.is_server_allowed(&other, "files", "d1").unwrap());
}

#[test]
fn the_files_of_a_workspace_are_confirmed_with_one_digest() {
    let folder = TempDir::new().unwrap();
    let trust = trust(&folder);
    let workspace = folder.path().join("ws");
    fs::create_dir(&workspace).unwrap();
    assert!(!trust.is_workspace_confirmed(&workspace, "d1").unwrap());
    trust.confirm_workspace(&workspace, "d1").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&workspace, &link).unwrap();
    assert!(trust.is_workspace_confirmed(&link, "d1").unwrap());
    assert!(!trust.is_workspace_confirmed(folder.path(), "d1").unwrap());
    assert!(!trust.is_confirmed(&workspace, "d1").unwrap());
    trust.confirm_workspace(&workspace, "d2").unwrap();
    assert!(trust.is_workspace_confirmed(&workspace, "d2").unwrap());
    assert!(!trust.is_workspace_confirmed(&workspace, "d1").unwrap());
}

#[test]
fn a_refusal_holds_until_the_file_is_confirmed() {
    let folder = TempDir::new().unwrap();
    let trust = trust(&folder);
    let file = folder.path().join("cairn.toml");
    trust.confirm(&file, "d1").unwrap();
    trust.refuse(&file, "d2").unwrap();
    assert!(trust.is_refused(&file, "d2").unwrap());
    assert!(!trust.is_refused(&file, "d1").unwrap());
    assert!(!trust.is_confirmed(&file, "d1").unwrap());
    trust.confirm(&file, "d2").unwrap();
    assert!(!trust.is_refused(&file, "d2").unwrap());
}

#[test]
fn a_link_to_a_file_is_that_file() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("cairn.toml");
    fs::write(&file, "").unwrap();
    let link = folder.path().join("link.toml");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let trust = trust(&folder);
    trust.confirm(&link, "d").unwrap();
    assert!(trust.is_confirmed(&file, "d").unwrap());
}

#[test]
fn what_is_kept_is_the_owners_alone() {
    let folder = TempDir::new().unwrap();
    let trust = trust(&folder);
    trust.remember_protocol("s1", "legacy").unwrap();
    assert_eq!(trust.protocol("s1").unwrap().as_deref(), Some("legacy"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(trust.path()), 0o600);
    assert_eq!(mode(trust.path().parent().unwrap()), 0o700);
    fs::set_permissions(trust.path(), fs::Permissions::from_mode(0o666)).unwrap();
    let error = trust.protocol("s1").unwrap_err().to_string();
    assert!(error.contains("others can write it"), "{error}");
}

#[test]
fn a_damaged_file_is_an_error_and_stays() {
    let folder = TempDir::new().unwrap();
    let trust = trust(&folder);
    fs::create_dir_all(trust.path().parent().unwrap()).unwrap();
    for text in ["", "{", "{\"version\": 2}", "{\"version\": 1, \"more\": 1}"] {
        fs::write(trust.path(), text).unwrap();
        let error = trust.is_confirmed(Path::new("/x"), "d").unwrap_err();
        assert!(error.to_string().contains("remove it"), "{error}");
        trust.confirm(Path::new("/x"), "d").unwrap_err();
        assert_eq!(fs::read_to_string(trust.path()).unwrap(), text);
    }
}

#[test]
fn changes_made_at_one_time_are_all_kept() {
    let folder = TempDir::new().unwrap();
    let trust = trust(&folder);
    std::thread::scope(|scope| {
        for at in 0..8 {
            let trust = trust.clone();
            scope.spawn(move || {
                for round in 0..8 {
                    let server = format!("s{at}-{round}");
                    trust.change_pins(&server, |_| pin(&server)).unwrap();
                }
            });
        }
    });
    for at in 0..8 {
        for round in 0..8 {
            let server = format!("s{at}-{round}");
            assert_eq!(trust.pins(&server).unwrap(), Some(pin(&server)));
        }
    }
}

#[test]
fn the_users_file_is_found_by_absolute_variables_alone() {
    let of = |state: &str, home: &str| {
        let (state, home) = (state.to_owned(), home.to_owned());
        Trust::default_path(move |name| {
            let value = if name == "HOME" { &home } else { &state };
            (!value.is_empty()).then(|| value.clone())
        })
    };
    let path = |text: &str| Some(PathBuf::from(text));
    assert_eq!(of("/s", "/h"), path("/s/cairn/trust.json"));
    assert_eq!(of("", "/h"), path("/h/.local/state/cairn/trust.json"));
    assert_eq!(of("rel", "/h"), path("/h/.local/state/cairn/trust.json"));
    assert_eq!(of("", ""), None);
}
