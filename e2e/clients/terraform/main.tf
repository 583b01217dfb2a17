# A state without a provider: what terraform.py keeps in the store.
terraform {
  backend "s3" {
    key                         = "a/state"
    use_path_style              = true
    use_lockfile                = true
    skip_credentials_validation = true
    skip_metadata_api_check     = true
    skip_requesting_account_id  = true
    skip_region_validation      = true
  }
}

variable "held" {
  type = string
}

resource "terraform_data" "held" {
  input = var.held
}
