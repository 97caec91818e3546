//! `${NAME}` and `${NAME:-default}` in the configuration's text.

/// Replaces what the text takes from the environment; comments are left alone.
pub(super) fn substitute(text: &str, env: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.lines().enumerate() {
        let mut rest = line;
        if !line.trim_start().starts_with('#') {
            while let Some((before, after)) = rest.split_once("${") {
                let (inside, behind) = after
                    .split_once('}')
                    .ok_or_else(|| format!("line {}: ${{ without }}", index + 1))?;
                let (name, default) = inside
                    .split_once(":-")
                    .map_or((inside, None), |(name, value)| (name, Some(value)));
                let value = env(name)
                    .filter(|value| !value.is_empty())
                    .or_else(|| default.map(str::to_owned));
                let value = value.ok_or_else(|| {
                    format!(
                        "line {}: the environment variable {name} is not set and has no default",
                        index + 1
                    )
                })?;
                // A quote or a line end would change what the file means around it.
                if value.contains(['"', '\\', '\n', '\r', '\'']) {
                    return Err(format!(
                        "line {}: the value of {name} holds quotes, backslashes or line ends",
                        index + 1
                    ));
                }
                out.push_str(before);
                out.push_str(&value);
                rest = behind;
            }
        }
        out.push_str(rest);
        out.push('\n');
    }
    Ok(out)
}
