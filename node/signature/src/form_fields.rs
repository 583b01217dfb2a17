//! The fields of a form, by name.

/// A field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name, as it was sent.
    pub name: String,
    /// The value; where several fields have the name, all of their values, separated by commas.
    pub value: String,
}

/// The fields before the file, in the order in which they came. Their names have no case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormFields(Vec<Field>);

impl FormFields {
    /// Adds a field. Another value of a name that is there is joined to it.
    pub fn push(&mut self, name: String, value: &str) {
        match self.0.iter_mut().find(|field| field.name.eq_ignore_ascii_case(&name)) {
            Some(field) => field.value.extend([",", value]),
            None => self.0.push(Field { name, value: value.to_owned() }),
        }
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all()
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value.as_str())
    }

    /// All fields.
    pub fn all(&self) -> &[Field] {
        &self.0
    }

    /// All values, to be changed in their places.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.0.iter_mut().map(|field| &mut field.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> FormFields {
        let mut fields = FormFields::default();
        for (name, value) in pairs {
            fields.push((*name).to_owned(), value);
        }
        fields
    }

    #[test]
    fn names_have_no_case_and_values_of_one_name_are_joined() {
        let fields = fields(&[("Key", "a"), ("x-amz-meta-tag", "Ninja"), ("X-Amz-Meta-Tag", "Stallman")]);
        assert_eq!(fields.get("kEY"), Some("a"));
        assert_eq!(fields.get("x-amz-meta-tag"), Some("Ninja,Stallman"));
        assert_eq!((fields.get("acl"), fields.all().len()), (None, 2));
    }
}
