use super::*;

#[test]
fn all_faults_are_reported_at_once() {
    let text = "stroe = 'x'\n\
                [memory]\n\
                lease = 15\n\
                max_sessions = 70000\n\
                mode = 'carefull'\n\
                [[tools.command]]\n\
                name = 'one'\n\
                argv = 'not a list'\n\
                [[tools.command]]\n\
                name = ''\n\
                argv = []\n\
                retrys = 1\n\
                [[tools.command]]\n\
                argv = []\n";
    let environment = env(&[
        ("CAIRN_MEMORY__RATIO", "half"),
        ("CAIRN_MEMORY__", "x"),
        ("CAIRN_TOOLS__PORTS", "1,2,many"),
        ("CAIRN_NO__SUCH", "x"),
    ]);
    let mut found = faults(
        Layers::new()
            .text("c.toml", text)
            .environment(&environment)
            .flag("--durable", "memory.durable", "perhaps")
            .flag("--set", "memory.lease.x", "1"),
    );
    found.sort();
    let want = [
        "c.toml:12: tools.command[1].retrys is not a setting, did you mean retries? \
         (allowed: name, argv, retries)",
        "c.toml:13: tools.command[2].name is missing",
        "c.toml:1: stroe is not a setting, did you mean store? \
         (allowed: store, memory, model, tools)",
        "c.toml:3: memory.lease has a value, but flag --set sets parts of it (allowed: a table)",
        "c.toml:4: memory.max_sessions is 70000 (allowed: a whole number from 0 to 65535)",
        "c.toml:5: memory.mode is \"carefull\", did you mean careful? (allowed: fast, careful)",
        "c.toml:8: tools.command[0].argv is \"not a list\" (allowed: a list)",
        "flag --durable: memory.durable is \"perhaps\" (allowed: true or false)",
        "flag --set: memory.lease is a table (allowed: a whole number with a unit, such as \
         500ms, 15s, 2m, 1h or 7d)",
        "variable CAIRN_MEMORY__: memory. is not a path of a setting (allowed: names with one \
         dot between them, or __ in variables)",
        "variable CAIRN_MEMORY__RATIO: memory.ratio is \"half\" (allowed: a number)",
        "variable CAIRN_NO__SUCH: no is not a setting (allowed: store, memory, model, tools)",
        "variable CAIRN_TOOLS__PORTS: tools.ports[2] is \"many\" (allowed: a whole number from \
         0 to 65535)",
    ];
    assert_eq!(found, want);
}

#[test]
fn checks_name_the_source_and_spare_what_has_a_fault() {
    let text = "[memory]\nlease = '2h'\nmax_sessions = 'many'\ndurable = false";
    let found = faults(Layers::new().text("c.toml", text));
    let want = [
        "c.toml:3: memory.max_sessions is \"many\" (allowed: a whole number from 0 to 65535)",
        "c.toml:2: memory.lease is 7200s (allowed: 1s to 60s)",
        "default: memory.mode is careful, which means nothing while durable is false \
         (allowed: fast)",
    ];
    assert_eq!(found, want);
}

#[test]
fn checks_name_the_items_of_lists_unless_their_numbers_have_changed() {
    let good = "[[tools.command]]\nname = 'x'\nargv = []\n";
    let blank = "[[tools.command]]\nname = ' '\nargv = []\n";
    let broken = "[[tools.command]]\nname = 5\nargv = []\n";
    let found = faults(Layers::new().text("c.toml", &format!("{good}{blank}")));
    let want = "c.toml:5: tools.command[1].name is empty (allowed: a text that says something)";
    assert_eq!(found, [want]);
    let found = faults(Layers::new().text("c.toml", &format!("{broken}{blank}")));
    assert_eq!(
        found,
        ["c.toml:2: tools.command[0].name is 5 (allowed: a string)"]
    );
}

#[test]
fn broken_toml_is_reported_with_its_lines_beside_other_faults() {
    let text = "a = 1\nb = = 2\nc = 'x\n";
    let environment = env(&[("CAIRN_MEMORY__RATIO", "half")]);
    let found = faults(Layers::new().text("c.toml", text).environment(&environment));
    let line = |prefix: &str| found.iter().any(|fault| fault.starts_with(prefix));
    assert!(line("c.toml:2: is not valid TOML: "), "{found:?}");
    assert!(line("c.toml:3: is not valid TOML: "), "{found:?}");
    assert!(line("variable CAIRN_MEMORY__RATIO: "), "{found:?}");
    assert!(!line("c.toml:1: "), "{found:?}");

    let found = faults(Layers::new().text("c.toml", "a = 1\na = 2"));
    assert!(found[0].starts_with("c.toml:2: "), "{found:?}");
    let found = faults(Layers::new().text("c.toml", "store = 99999999999999999999"));
    assert_eq!(
        found,
        ["c.toml:1: store is too large a number (allowed: whole numbers of 64 bits)"]
    );
}

#[test]
fn a_wrong_secret_is_a_fault_without_its_value() {
    let found = faults(Layers::new().text("c.toml", "[model]\napi_key = 12345"));
    assert_eq!(
        found,
        ["c.toml:2: model.api_key is not a string (allowed: a string)"]
    );
}

#[test]
fn faults_are_shown_one_a_line() {
    let environment = env(&[
        ("CAIRN_NO__SUCH\r\nX", "x"),
        ("CAIRN_MEMORY__MODE", "a\nb\x1b"),
    ]);
    let errors = Layers::new().environment(&environment).load::<All>();
    let text = errors.unwrap_err().to_string();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(
        text.starts_with("the configuration has 2 faults\n  "),
        "{text}"
    );
    assert!(!text.contains('\x1b') && !text.contains('\r'));
}

/// Without the fault, all of the variable would be left out, and what files say in its place as well.
#[test]
fn an_unknown_name_inside_a_variable_is_a_fault() {
    let command = "{ command = [{ name = 'n', argv = [], matcher = 'Bash' }] }";
    for (variable, value, fault) in [
        (
            "CAIRN_MEMORY",
            "{ ratio = 2, speed = 1 }",
            "memory.speed is not a setting (allowed: lease, max_sessions, ratio, durable, mode)",
        ),
        (
            "CAIRN_TOOLS",
            command,
            "tools.command[0].matcher is not a setting (allowed: name, argv, retries)",
        ),
        (
            "CAIRN_MEMORY",
            "{ leese = '10s' }",
            "memory.leese is not a setting, did you mean lease? \
             (allowed: lease, max_sessions, ratio, durable, mode)",
        ),
    ] {
        let file = "[memory]\nlease = '10s'\n[[tools.command]]\nname = 'one'\nargv = []\n";
        for text in ["", file] {
            let layers = Layers::new().text("c.toml", text);
            let found = faults(layers.environment(&env(&[(variable, value)])));
            assert_eq!(found, [format!("variable {variable}: {fault}")], "{text}");
        }
    }
}
