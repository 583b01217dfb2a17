# Users, keys, groups and policies, and a bucket that everyone may read: what aws.py applies, changes and destroys.
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

variable "s3" {
  type = string
}

variable "iam" {
  type = string
}

variable "name" {
  type = string
}

variable "actions" {
  type = list(string)
}

variable "path" {
  type = string
}

variable "open" {
  type = bool
}

provider "aws" {
  s3_use_path_style           = true
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  endpoints {
    s3  = var.s3
    iam = var.iam
    sts = var.iam
  }
}

data "aws_caller_identity" "root" {}

resource "aws_s3_bucket" "site" {
  bucket        = var.name
  force_destroy = true
  tags          = { of = var.path }
}

resource "aws_s3_bucket_ownership_controls" "site" {
  bucket = aws_s3_bucket.site.id
  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_public_access_block" "site" {
  bucket                  = aws_s3_bucket.site.id
  block_public_acls       = true
  ignore_public_acls      = true
  block_public_policy     = !var.open
  restrict_public_buckets = !var.open
}

data "aws_iam_policy_document" "everyone" {
  statement {
    sid       = "EveryoneReads"
    actions   = ["s3:GetObject"]
    resources = ["${aws_s3_bucket.site.arn}/public/*"]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
  }
  statement {
    sid       = "AdaDeletesNothing"
    effect    = "Deny"
    actions   = ["s3:DeleteObject"]
    resources = ["${aws_s3_bucket.site.arn}/*"]
    principals {
      type        = "AWS"
      identifiers = [aws_iam_user.ada.arn]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_s3_bucket_policy" "site" {
  count      = var.open ? 1 : 0
  bucket     = aws_s3_bucket.site.id
  policy     = data.aws_iam_policy_document.everyone.json
  depends_on = [aws_s3_bucket_public_access_block.site]
}

resource "aws_s3_object" "page" {
  bucket  = aws_s3_bucket.site.id
  key     = "public/page"
  content = "a page"
  tags    = { kind = "page" }
}

resource "aws_iam_user" "ada" {
  name          = "ada-${var.name}"
  path          = var.path
  force_destroy = true
  tags          = { of = var.path, empty = "" }
}

resource "aws_iam_access_key" "ada" {
  user = aws_iam_user.ada.name
}

resource "aws_iam_user_policy" "ada" {
  name   = "own"
  user   = aws_iam_user.ada.name
  policy = data.aws_iam_policy_document.own.json
}

data "aws_iam_policy_document" "own" {
  statement {
    actions   = var.actions
    resources = [aws_s3_bucket.site.arn, "${aws_s3_bucket.site.arn}/*"]
  }
}

data "aws_iam_policy_document" "lists" {
  statement {
    actions   = ["s3:ListBucket", "s3:GetBucketLocation"]
    resources = [aws_s3_bucket.site.arn]
  }
}

resource "aws_iam_policy" "lists" {
  name        = "lists-${var.name}"
  path        = "/app/"
  description = "Lists the bucket"
  policy      = data.aws_iam_policy_document.lists.json
  tags        = { of = var.path }
}

resource "aws_iam_user_policy_attachment" "ada" {
  user       = aws_iam_user.ada.name
  policy_arn = aws_iam_policy.lists.arn
}

resource "aws_iam_group" "readers" {
  name = "readers-${var.name}"
  path = var.path
}

resource "aws_iam_group_policy" "readers" {
  name   = "own"
  group  = aws_iam_group.readers.name
  policy = data.aws_iam_policy_document.own.json
}

resource "aws_iam_group_policy_attachment" "readers" {
  group      = aws_iam_group.readers.name
  policy_arn = aws_iam_policy.lists.arn
}

resource "aws_iam_user_group_membership" "ada" {
  user   = aws_iam_user.ada.name
  groups = [aws_iam_group.readers.name]
}

output "root" {
  value = data.aws_caller_identity.root.arn
}

output "key" {
  value = {
    aws_access_key_id     = aws_iam_access_key.ada.id
    aws_secret_access_key = aws_iam_access_key.ada.secret
  }
  sensitive = true
}
