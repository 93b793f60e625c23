"""Hugging Face's Trainer, a ViT from a configuration, cached logits. python examples/loops/hugging_face.py"""

import torch
from digits import CLASSES, OLD_CLASSES, digits
from torch import Tensor
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

import mptctl

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
METHOD = mptctl.build_method("mpt-kl", num_old=OLD_CLASSES, k=2.0)


def loss(outputs: dict[str, Tensor], packed: Tensor, num_items_in_batch: object = None) -> Tensor:
    labels, old_logits, ref_logits = packed.split([1, OLD_CLASSES, CLASSES], dim=1)
    return METHOD(outputs["logits"], labels[:, 0].long(), old_logits, ref_logits)["loss"]


def main(folder: str = "vit", epochs: int = 20) -> mptctl.Report:
    seen, test = digits()
    # The Trainer hands `labels` to the loss and nothing else: the teachers, asked once, stand behind the label.
    packed = torch.cat([seen.labels[:, None], seen.old(seen.pictures), seen.ref(seen.pictures)], dim=1)
    data = [{"pixel_values": x, "labels": y} for x, y in zip(seen.pictures, packed, strict=True)]
    model = ViTForImageClassification(
        ViTConfig(image_size=8, patch_size=2, num_channels=1, num_labels=CLASSES, **SIZES)
    )
    args = TrainingArguments(
        folder, num_train_epochs=epochs, per_device_train_batch_size=64, learning_rate=2e-3, use_cpu=True
    )
    Trainer(model=model, args=args, train_dataset=data, compute_loss_func=loss).train()
    model.eval()
    with torch.inference_mode():
        new = model(test.pictures).logits
    return mptctl.evaluate(test.labels, old=test.old(test.pictures), new=new)


if __name__ == "__main__":
    print(main())
