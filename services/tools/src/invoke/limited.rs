//! Results within their limits.

use crate::text;
use crate::tool::Output;

/// Most bytes of media that a result carries.
const MEDIA_LIMIT: usize = 4 << 20;

/// Media beyond the limit of a result are left out, and the text says so.
pub(super) fn limited(mut output: Output, limit: usize) -> Output {
    let mut room = MEDIA_LIMIT;
    let before = output.media.len();
    output.media.retain(|media| {
        let fits = media.data.len() <= room;
        room -= if fits { media.data.len() } else { 0 };
        fits
    });
    let is_cut = output.text.len() > limit;
    let mut text = text::cut(output.text, limit);
    if output.media.len() < before {
        let left = before - output.media.len();
        text.push_str(&format!(
            "\n[left out: {left} of {before} media, as a result has at most {MEDIA_LIMIT} bytes of them]"
        ));
    }
    Output {
        text,
        media: output.media,
        is_cut,
        file: output.file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Media;

    #[test]
    fn media_beyond_the_limit_are_left_out_and_the_text_says_so() {
        let media = |bytes| Media {
            data: vec![0; bytes],
            mime_type: "image/png".to_owned(),
            name: String::new(),
        };
        let output = Output {
            text: "x".repeat(2_000),
            media: vec![media(MEDIA_LIMIT - 1), media(2), media(1)],
            ..Output::default()
        };
        let output = limited(output, 1_000);
        let sizes: Vec<_> = output.media.iter().map(|media| media.data.len()).collect();
        assert_eq!(sizes, [MEDIA_LIMIT - 1, 1]);
        assert!(output.text.len() < 1_200, "{}", output.text.len());
        assert!(
            output.text.contains("[left out: 1 of 3 media"),
            "{}",
            output.text
        );
    }

    #[test]
    fn a_text_beyond_the_limit_is_marked_as_cut() {
        for (bytes, is_cut) in [(999, false), (1_000, false), (1_001, true)] {
            let output = limited(Output::text("x".repeat(bytes)), 1_000);
            assert_eq!(output.is_cut, is_cut, "{bytes}");
            assert!(output.text.len() <= 1_000);
        }
    }
}
