"""Every version that the infrastructure pins, each with its source."""

# The operator that the RayJob is tested with: https://github.com/ray-project/kuberay/releases
KUBERAY_OPERATOR = "1.6.2"
# Where its chart is: https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/kuberay-operator-installation.html
KUBERAY_CHARTS = "https://ray-project.github.io/kuberay-helm/"
