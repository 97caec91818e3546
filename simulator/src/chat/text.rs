//! Words out of nothing: the same for the same messages, on every machine and in every version of Rust.

use super::request::Message;

const WORDS: [&str; 32] = [
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbor", "indigo", "jasper", "kelp", "lagoon",
    "maple", "north", "ocean", "pebble", "quartz", "river", "slate", "timber", "umber", "valley", "willow", "xenon",
    "yarrow", "zephyr", "aspen", "basalt", "coral", "dune", "elm", "fern",
];

/// FNV-1a, for its few lines: the standard hasher may change between releases.
pub fn hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The n-th number that follows from a seed (splitmix64: the low bits of FNV alone are poor).
pub fn number(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One of `count` places; 0 when there is none.
pub fn pick(seed: u64, count: usize) -> usize {
    let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
    usize::try_from(number(seed, 0) % count).unwrap_or(0)
}

/// Words with single spaces, at least `length` characters (ASCII, so bytes too).
pub fn words(seed: u64, length: usize) -> String {
    let mut text = String::new();
    for n in 0.. {
        let word = WORDS[pick(number(seed, n), WORDS.len())];
        if n > 0 {
            text.push(' ');
        }
        text.push_str(word);
        if text.len() >= length {
            break;
        }
    }
    text
}

/// What the answer follows from: all messages, roles and texts.
pub fn seed(messages: &[Message]) -> u64 {
    messages.iter().fold(0, |seed, message| {
        // The zero byte keeps ("a", "bc") and ("ab", "c") apart.
        hash(hash(hash(seed, message.role.as_bytes()), &[0]), message.text.as_bytes())
    })
}

/// A word that a field of the answer must begin with.
#[derive(Debug, PartialEq, Eq)]
pub struct Instruction {
    pub field: String,
    pub word: String,
}

/// What the last sentence of a system message asks for, in the exact form `Begin the value of "FIELD" with the word
/// NONCE.` Only of a system message: that is what it proves, that the system prompt is honoured and a user's text is
/// not taken for it. Of several, the last counts.
pub fn instruction(messages: &[Message]) -> Option<Instruction> {
    messages
        .iter()
        .rev()
        .filter(|message| message.role == "system")
        .find_map(|message| {
            let text = message.text.trim_end().strip_suffix('.')?;
            let (_, asked) = text.rsplit_once("Begin the value of \"")?;
            let (field, word) = asked.split_once("\" with the word ")?;
            let plain = !field.is_empty() && !word.is_empty() && !word.contains(char::is_whitespace);
            plain.then(|| Instruction {
                field: field.to_owned(),
                word: word.to_owned(),
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: &str, text: &str) -> Option<Instruction> {
        instruction(&[Message {
            role: role.into(),
            text: text.into(),
        }])
    }

    #[test]
    fn an_instruction_is_the_last_sentence_of_a_system_message() {
        let wanted = Some(Instruction {
            field: "summary".into(),
            word: "zq7".into(),
        });
        assert_eq!(
            said("system", "Be kind. Begin the value of \"summary\" with the word zq7."),
            wanted
        );
        assert_eq!(
            said("system", "Begin the value of \"summary\" with the word zq7.\n"),
            wanted
        );
        assert_eq!(
            said(
                "system",
                "Begin the value of \"a\" with the word b. Begin the value of \"summary\" with the word zq7."
            ),
            wanted
        );
    }

    #[test]
    fn no_other_role_or_form_is_an_instruction() {
        let sentence = "Begin the value of \"summary\" with the word zq7.";
        for role in ["user", "assistant", "developer", "tool"] {
            assert_eq!(said(role, sentence), None, "{role}");
        }
        for text in [
            "Begin the value of \"summary\" with the word zq7",
            "Begin the value of \"summary\" with the word zq7. Thank you.",
            "begin the value of \"summary\" with the word zq7.",
            "Begin the value of summary with the word zq7.",
            "Begin the value of \"summary\" with the words zq7 zq8.",
            "Begin the value of \"summary\" with the word two words.",
            "",
        ] {
            assert_eq!(said("system", text), None, "{text}");
        }
    }

    #[test]
    fn the_words_of_a_seed_never_change() {
        // Recorded answers of users' tests depend on it.
        assert_eq!(words(1, 12), words(1, 12));
        assert_eq!(hash(0, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(number(0, 0), 0xe220_a839_7b1d_cdaf);
    }
}
