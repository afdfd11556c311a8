use super::*;

#[test]
fn the_environment_is_a_list_of_names() {
    let all = [
        ("PATH", "/bin"),
        ("HOME", "/home/x"),
        ("LC_ALL", "C.UTF-8"),
        ("CARGO_HOME", "/c"),
        ("OPENAI_API_KEY", "secret"),
        ("CAIRN_TOKEN", "secret"),
        ("TERM", "xterm"),
        ("MINE", "1"),
    ];
    let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = ShellConfig {
        env: vec!["MINE".to_owned(), "ABSENT".to_owned()],
        ..ShellConfig::default()
    };
    let passed = environment(&config, &all.into());
    let names: Vec<&str> = passed.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["CARGO_HOME", "HOME", "LC_ALL", "MINE", "PATH", "TERM"]
    );
    assert_eq!(passed["TERM"], "dumb");
    let passed = environment(&ShellConfig::default(), &BTreeMap::new());
    assert_eq!(passed["PATH"], DEFAULT_PATH);
}

#[test]
fn the_mark_of_a_signal_is_no_output() {
    use std::os::unix::process::ExitStatusExt as _;
    let status = ExitStatus::from_raw(137 << 8);
    let mut transcript = Transcript::new(Progress::default());
    transcript.take(b"half\n\x1eended by signal 9");
    assert_eq!(transcript.signal(status), Some(9));
    assert_eq!(transcript.into_text(), "half");
    let mut long = Transcript::new(Progress::default());
    long.take(&vec![b'x'; OUTPUT_LIMIT]);
    long.take(b"\x1eended by signal 9");
    assert_eq!(long.signal(status), Some(9));
    let text = long.into_text();
    assert!(text.len() <= OUTPUT_LIMIT - WORDS, "{}", text.len());
    assert!(text.contains("[cut:"));
}

#[test]
fn progress_shows_the_end_of_new_output() {
    let (progress, steps) = Progress::followed();
    let mut transcript = Transcript::new(progress);
    transcript.take(&vec![b'a'; STEP_BYTES]);
    transcript.take(b"end");
    transcript.report();
    transcript.report();
    let step = steps.take().unwrap();
    assert!(step.message.ends_with("aend"));
    assert_eq!(step.message.len(), STEP_BYTES);
    assert!(steps.take().is_none());
}
