//! Images, sounds and videos of a conversation: only its text can be learned.

use serde_json::{Map, Value};

/// Keys of lists of images, sounds and videos: of TRL, verl, LLaMA-Factory and ms-swift.
const LISTS: [(&str, &str); 9] = [
    ("images", "images"),
    ("videos", "videos"),
    ("audios", "audio"),
    ("multi_modal_data", "media"),
    ("multi_modal_inputs", "media"),
    ("multimodal_data", "media"),
    ("mm_data", "media"),
    ("pixel_values", "images"),
    ("attachments", "attachments"),
];

/// Keys of one image, sound or video; the text under them may be of something else, as of a container.
const ONE: [&str; 4] = ["image", "video", "audio", "media"];

/// First words of other keys of media (`image_url`, `img`, `imageList`), and what they hold.
const NOUNS: [(&str, &str); 8] = [
    ("image", "images"),
    ("img", "images"),
    ("picture", "images"),
    ("photo", "images"),
    ("screenshot", "images"),
    ("video", "videos"),
    ("audio", "audio"),
    ("media", "media"),
];

/// Words of keys of images of containers.
const CONTAINERS: [&str; 3] = ["docker", "container", "sandbox"];

/// Keys of files, which may also be of text.
const FILES: [&str; 2] = ["file", "files"];

/// Keys of the data of a medium.
const DATA: [&str; 3] = ["bytes", "base64", "data"];

/// Ends of the names of files of images, sounds and videos.
const ENDS: [&str; 21] = [
    ".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif", ".mp4", ".webm",
    ".mov", ".mkv", ".avi", ".wav", ".mp3", ".flac", ".ogg", ".m4a", ".opus",
];

/// Starts of media in base64: JPEG, PNG, GIF, RIFF (WebP and WAV), MP3 with tags, FLAC and Ogg.
const BASE64: [&str; 7] = ["/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR", "SUQz", "ZkxhQ", "T2dnUw"];

/// Return what kind of media an object holds beside its text, in the plural; `None` if it holds none.
pub(super) fn media_of(object: &Map<String, Value>) -> Option<&'static str> {
    object.iter().find_map(|(key, value)| kind(key, value))
}

fn kind(key: &str, value: &Value) -> Option<&'static str> {
    if let Some((_, kind)) = LISTS.iter().find(|(list, _)| *list == key) {
        return has_values(value).then_some(*kind);
    }
    if FILES.contains(&key) {
        return are_files(value).then_some("media files");
    }
    let mut words = key.split(|letter: char| !letter.is_ascii_alphabetic());
    let noun = |word: &str| NOUNS.iter().position(|(noun, _)| is_form_of(word, noun));
    let (_, kind) = words.clone().filter_map(noun).min().map(|at| NOUNS[at])?;
    let of_container = words.any(|word| CONTAINERS.iter().any(|other| is_form_of(word, other)));
    let is_one = ONE.contains(&key) && !value.is_string() && has_values(value);
    (!of_container && (is_one || has_medium(value))).then_some(kind)
}

/// Return whether a word is a noun, its plural, or begins with it as `imageUrl` does.
fn is_form_of(word: &str, noun: &str) -> bool {
    let first = |text: &str| text.as_bytes().first().map(u8::to_ascii_lowercase);
    if first(word) != first(noun) {
        return false;
    }
    let Some((start, rest)) = word.split_at_checked(noun.len()) else { return false };
    let rest = rest.strip_prefix('s').unwrap_or(rest);
    start.eq_ignore_ascii_case(noun)
        && (rest.is_empty() || rest.starts_with(|next: char| next.is_uppercase()))
}

/// Return whether a value is not empty, and holds more than nulls.
fn has_values(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(has_values),
        Value::Object(fields) => fields.values().any(has_values),
        Value::String(text) => !text.is_empty(),
        Value::Number(_) => true,
        Value::Null | Value::Bool(_) => false,
    }
}

/// Return whether a value holds a medium: its address, its data, or the name of its file.
fn has_medium(value: &Value) -> bool {
    let is_data =
        |key: &str, value: &Value| DATA.contains(&key) && value.as_str().is_some_and(|text| !text.is_empty());
    match value {
        Value::String(text) => is_medium(text),
        Value::Array(values) => values.iter().any(has_medium),
        Value::Object(fields) => fields.iter().any(|(key, value)| is_data(key, value) || has_medium(value)),
        _ => false,
    }
}

/// Return whether all files of a value are media. A list of files that an agent changed has others too.
fn are_files(value: &Value) -> bool {
    match value {
        Value::String(text) => names_media(text) || is_data(text),
        Value::Array(values) => !values.is_empty() && values.iter().all(are_files),
        Value::Object(fields) => has_medium(value) && !fields.contains_key("content"),
        _ => false,
    }
}

fn is_medium(text: &str) -> bool {
    is_data(text) || text.starts_with("http://") || text.starts_with("https://") || names_media(text)
}

fn is_data(text: &str) -> bool {
    text.starts_with("data:") || BASE64.iter().any(|start| text.starts_with(start))
}

/// Return whether a text, without the query of an address, ends like the name of a file of media.
fn names_media(text: &str) -> bool {
    let name = text.split(['?', '#']).next().unwrap_or_default().as_bytes();
    ENDS.iter().any(|end| {
        let at = name.len().checked_sub(end.len());
        at.is_some_and(|at| name[at..].eq_ignore_ascii_case(end.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(key: &str, value: Value) -> Option<&'static str> {
        media_of(&Map::from_iter([(key.to_owned(), value)]))
    }

    #[test]
    fn media_have_many_keys() {
        for (key, value, kind) in [
            ("image_url", json!("http://x/a.png"), "images"),
            ("image_url", json!({"url": "https://x/a?b=c"}), "images"),
            ("imageUrl", json!("http://x/a"), "images"),
            ("image_path", json!("x.PNG"), "images"),
            ("img", json!("a.png"), "images"),
            ("image_0", json!("x.png"), "images"),
            ("image_list", json!(["x.png"]), "images"),
            ("image_file", json!("x.png?w=1"), "images"),
            ("image", json!("/9j/4AAQSkZJRg=="), "images"),
            ("input_images", json!([{"bytes": "xx", "path": null}]), "images"),
            ("video_paths", json!(["v.mp4"]), "videos"),
            ("audio_path", json!("a.wav"), "audio"),
            ("files", json!(["a.png"]), "media files"),
        ] {
            assert_eq!(of(key, value.clone()), Some(kind), "{key} {value}");
        }
    }

    #[test]
    fn other_values_under_such_keys_are_not_media() {
        for (key, value) in [
            ("image", json!("alpine:3.19")),
            ("docker_image", json!("https://registry/x.png")),
            ("image_size", json!([224, 224])),
            ("image_caption", json!("A dog.")),
            ("imagination", json!("x.png")),
            ("image_url", json!(null)),
            ("image_list", json!([])),
            ("files", json!(["logo.png", "main.rs"])),
            ("files", json!([])),
            ("file", json!("main.rs")),
            ("profile", json!("me.png")),
        ] {
            assert_eq!(of(key, value.clone()), None, "{key} {value}");
        }
    }
}
