//! The difference between two texts, line by line.

/// The longest texts that are compared, in lines: the work grows with the product.
const MOST_LINES: usize = 2_000;

/// Lines that only the first has with `- `, those that only the second has with `+ `, common ones with
/// two spaces.
pub(super) fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    if old.len() > MOST_LINES || new.len() > MOST_LINES {
        let all = |mark: char, lines: &[&str]| {
            lines.iter().map(|line| format!("{mark} {line}\n")).collect::<String>()
        };
        return all('-', &old) + &all('+', &new);
    }
    // How many lines are common from each pair of places on.
    let mut common = vec![vec![0_u16; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let mut text = String::new();
    let mut say = |mark: char, line: &str| {
        text.push(mark);
        text.push(' ');
        text.push_str(line);
        text.push('\n');
    };
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        match (old.get(i), new.get(j)) {
            (Some(line), Some(other)) if line == other => {
                say(' ', line);
                (i, j) = (i + 1, j + 1);
            }
            (Some(line), other) if other.is_none() || common[i + 1][j] >= common[i][j + 1] => {
                say('-', line);
                i += 1;
            }
            (_, Some(line)) => {
                say('+', line);
                j += 1;
            }
            (_, None) => break,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MV-17
    #[test]
    fn a_difference_shows_what_goes_and_what_comes() {
        let table = [
            ("a\nb\nc", "a\nx\nc\nd", "  a\n- b\n+ x\n  c\n+ d\n"),
            ("same", "same", "  same\n"),
            ("", "new", "+ new\n"),
            ("gone", "", "- gone\n"),
            ("one\ntwo", "two\none", "- one\n  two\n+ one\n"),
        ];
        for (old, new, expected) in table {
            assert_eq!(difference(old, new), expected);
        }
    }
}
