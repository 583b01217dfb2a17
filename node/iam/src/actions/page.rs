//! Pages of listings.

use super::super::answer::Elements;
use super::super::request::PageRequest;

/// Adds the end of a page: whether there are more, and the marker of the next one.
pub(super) fn end_page(result: &mut Elements, next: Option<&str>) {
    result.text("IsTruncated", next.is_some());
    if let Some(next) = next {
        result.text("Marker", next);
    }
}

/// A page of a list, each entry of which is written by `fill`, and its end.
pub(super) fn list_page<T>(
    name: &str,
    entries: impl IntoIterator<Item = T>,
    fill: impl Fn(&mut Elements, T),
    next: Option<&str>,
) -> Elements {
    let mut result = Elements::default();
    result.list(name, entries, fill);
    end_page(&mut result, next);
    result
}

/// Sorts the entities of a page by name, without regard to case: one that was renamed lies elsewhere.
pub(super) fn sort_page<T>(entities: &mut [T], name: fn(&T) -> &String) {
    entities.sort_by_cached_key(|entity| name(entity).to_ascii_lowercase());
}

/// Cuts a list that is in memory to the page that is asked for; `name` orders it.
pub(super) fn cut_page<T>(
    page: &PageRequest,
    mut entries: Vec<T>,
    name: impl Fn(&T) -> &str,
) -> (Vec<T>, Option<String>) {
    entries.sort_by(|one, other| name(one).cmp(name(other)));
    if let Some(marker) = &page.marker {
        entries.retain(|entry| name(entry) > marker.as_str());
    }
    let next = (entries.len() > page.entries).then(|| name(&entries[page.entries - 1]).to_owned());
    entries.truncate(page.entries);
    (entries, next)
}
