use super::*;
use proptest::prelude::*;

/// Reads a line as the line editor does: as much as there is, and what is beyond the line is forgotten.
fn read_line(mut editor: &File) -> Vec<u8> {
    let (mut line, mut bytes) = (Vec::new(), [0; 1024]);
    loop {
        let count = editor.read(&mut bytes).unwrap();
        let read = &bytes[..count];
        let end = read.iter().position(|byte| *byte == b'\r');
        line.extend_from_slice(&read[..end.unwrap_or(count)]);
        if end.is_some() {
            return line;
        }
    }
}

/// The end of a person, the end of the editor's terminal that takes keys, and the way between the terminals.
fn way() -> (File, File, Way) {
    let mut modes = tcgetattr(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap()).unwrap();
    modes.make_raw();
    let (person, terminal) = pair(&modes).unwrap();
    let (keys, editor) = pair(&modes).unwrap();
    let way = Way {
        terminal: Arc::new(File::from(terminal)),
        editor: Arc::new(editor),
        is_holding: Arc::default(),
        has_ended: Arc::default(),
    };
    (person, keys, way)
}

#[test]
fn a_key_is_seen_until_the_editor_reads_it() {
    let (mut person, keys, way) = way();
    let mut reader = File::from(way.editor.try_clone().unwrap());
    let seen = way.clone();
    let thread = thread::spawn(move || way.hand_over(&keys, Pieces::new(b"\r".to_vec())));
    for _ in 0..500 {
        person.write_all(b"x").unwrap();
        while !seen.has_keys().unwrap() {}
        for _ in 0..50 {
            assert!(seen.has_keys().unwrap());
        }
        reader.read_exact(&mut [0]).unwrap();
    }
    drop(person);
    // A terminal that has gone ends the thread, with the system's error or without.
    let _ = thread.join().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn an_editor_that_reads_ahead_loses_nothing(
        lines in prop::collection::vec("[a-zé😀]{0,40}", 1..20),
        sizes in prop::collection::vec(1_usize..300, 1..4),
    ) {
        let (mut person, keys, way) = way();
        let reader = File::from(way.editor.try_clone().unwrap());
        let thread = thread::spawn(move || way.hand_over(&keys, Pieces::new(b"\r".to_vec())));
        let typed: String = lines.iter().map(|line| format!("{line}\r")).collect();
        let (mut rest, mut sizes) = (typed.as_bytes(), sizes.iter().cycle());
        while let (false, Some(size)) = (rest.is_empty(), sizes.next()) {
            let (burst, others) = rest.split_at(rest.len().min(*size));
            person.write_all(burst).unwrap();
            rest = others;
        }
        for line in &lines {
            prop_assert_eq!(String::from_utf8(read_line(&reader)).unwrap(), line.as_str());
        }
        drop(person);
        // A terminal that has gone ends the thread, with the system's error or without.
        let _ = thread.join().unwrap();
    }
}
