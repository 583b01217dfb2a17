//! Quantities of Kubernetes, as numbers: a decimal number with a suffix of ten's or two's powers, or with an
//! exponent.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Returns the whole bytes of a quantity; nothing for a text of another form, a negative one, and one of more
/// digits than a number holds.
pub(super) fn bytes(Quantity(text): &Quantity) -> Option<u128> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let (factor, divisor) = scale(suffix)?;
    let divisor = divisor.checked_mul(10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    digits.checked_mul(factor)?.checked_div(divisor)
}

/// The number that a suffix multiplies with, and the one that it divides by.
fn scale(suffix: &str) -> Option<(u128, u128)> {
    let tens = |exponent: u32| 10_u128.checked_pow(exponent);
    let (factor, divisor) = match suffix {
        "" => (1, 1),
        "n" => (1, tens(9)?),
        "u" => (1, tens(6)?),
        "m" => (1, tens(3)?),
        "k" => (tens(3)?, 1),
        "M" => (tens(6)?, 1),
        "G" => (tens(9)?, 1),
        "T" => (tens(12)?, 1),
        "P" => (tens(15)?, 1),
        "E" => (tens(18)?, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let exponent: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = tens(exponent.unsigned_abs())?;
            if exponent < 0 { (1, power) } else { (power, 1) }
        }
    };
    Some((factor, divisor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_bytes_as_kubernetes_reads_them() {
        let read = |text: &str| bytes(&Quantity(text.to_owned()));
        for (text, expected) in [
            ("0", 0),
            ("128974848", 128_974_848),
            ("129M", 129_000_000),
            ("123Mi", 123 << 20),
            ("0.5Gi", 512 << 20),
            ("+.5Ki", 512),
            ("1.", 1),
            ("1500m", 1),
            ("1e3", 1_000),
            ("12E-1", 1),
            ("2E", 2_000_000_000_000_000_000),
            ("1Ei", 1 << 60),
        ] {
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for text in ["", ".", "-1Gi", "1.2.3", "Gi", "1gi", "1KB", "1e", "1e999", "many"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
